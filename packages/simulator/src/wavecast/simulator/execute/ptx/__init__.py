"""PTX execution: helpers on 32 lanes, registers, divergence. Driver, memory and trace are those of every kernel."""
