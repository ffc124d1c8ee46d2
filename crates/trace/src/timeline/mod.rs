//! Room `timeline`.

pub mod by_told;
pub mod canvas;
pub mod draw;
pub mod figure;
pub mod kinds;
pub mod lanes;
pub mod measurement;
pub mod messages;
pub mod metrics;
pub mod needed;
pub mod shape;
