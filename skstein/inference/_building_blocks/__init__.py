"""What engines are built of: moves of particles, densities, step sizes, bounds."""
