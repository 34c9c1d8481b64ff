"""What travels: conversion between the model's types and their protobuf mirrors, batches of equal jobs, frames.

Start with `convert`; `protocol` holds the versions and limits that both sides agree on. It opens no connection.
"""
