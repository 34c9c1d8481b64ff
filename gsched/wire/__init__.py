"""gRPC between master, agents and whoever asks: conversion, client, server side pieces. It decides nothing."""
