//! Links between events.

mod derived;
mod gpu_clocks;
mod gpu_work;
mod gpus;
mod graphs;
mod launches;
mod replays;
mod stamps;
