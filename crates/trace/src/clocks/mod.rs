//! Room `clocks`.

pub mod alignment;
pub mod anchors;
pub mod gpu_clock;
pub mod interval;
pub mod lane_clock;
pub mod ticks;
