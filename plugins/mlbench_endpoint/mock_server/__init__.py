"""A server of OpenAI's protocols without a model: its delays, answers and faults are the user's, and it keeps them.

It shares no reader or writer of the protocol with the client, so that a mistake of the one is none of the other.
"""
