"""Pages and what they send: a module for each, from a request to an answer.

Start with `page_context`: what all of them have at hand. A page shows what `gsched.web.mirror` holds or asks the
master, and never decides who may do what: the master does.
"""
