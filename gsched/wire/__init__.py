"""gRPC between master, agents and whoever asks: conversion, client, server side pieces. It decides nothing.

Start with `calls` (who asks) and `server` (who answers); what travels is in `messages`, who is who in `identity`.
"""
