"""Reads every error and refusal out of the sources, for the reference of messages."""
