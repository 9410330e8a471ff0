"""The lab: hosts, links, processes and certificates that a run creates, and the supervisor that removes them."""
