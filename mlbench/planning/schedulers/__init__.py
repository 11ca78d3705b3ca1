"""A suite as a job for a cluster's scheduler, printed as text; nothing here starts one."""
