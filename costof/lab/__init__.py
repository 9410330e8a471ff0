"""A run's own hosts, links, processes and certificates, and the supervisor that takes them away."""
