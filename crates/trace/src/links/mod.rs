//! Room `links`.

pub mod callback_threads;
pub mod closing;
pub mod collective;
pub mod comm;
pub mod composites;
pub mod correlate;
pub mod gpu_clocks;
pub mod gpu_work;
pub mod gpus;
pub mod interval;
pub mod launches;
pub mod pxn;
pub mod replays;
pub mod stamps;
