"""Time of programs of several GPUs: streams, hardware queues, copy engines, links, and what keeps them from ending."""
