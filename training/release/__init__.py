"""Releases in Rich Release Format: writing a terminology as one."""
