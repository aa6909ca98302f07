"""Dumps that are not on this machine: object storage, the Hugging Face Hub and web servers."""
