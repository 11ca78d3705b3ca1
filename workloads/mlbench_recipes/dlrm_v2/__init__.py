"""The mini profile of DLRM."""
