"""Experiments that figures of several papers share."""
