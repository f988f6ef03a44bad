"""Simulation of the real network: one random instance, its gradient step, its ridge fit, its exact test error."""

from gradstep.simulation.families import simulate_many
from gradstep.simulation.layer_curve import layer_learning_curve
from gradstep.simulation.measurement import Measurement
from gradstep.simulation.network import Network
from gradstep.simulation.simulate import simulate

__all__ = ["Measurement", "Network", "layer_learning_curve", "simulate", "simulate_many"]
