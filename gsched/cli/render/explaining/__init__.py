"""Layouts of what is told of why a job waits, or would wait. They ask nobody and decide nothing.

Start with `explanation_text`, and for programs with `explanation_json`.
"""
