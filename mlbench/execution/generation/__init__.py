"""In-flight autoregressive decoding: sequences join and leave a running batch.

A `Request` waits in `admission`, is given one of the `slots`, has its prompt read into the `cache` in pieces, and is
decoded with all others that run, a token a step, by `greedy` or `beam_search`. `flight` is the loop; `engine` owns the
thread that it runs on.
"""
