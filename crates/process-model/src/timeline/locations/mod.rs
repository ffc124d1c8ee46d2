//! One file for each kind of location: its contents and their regions.
//!
//! A new kind of location is a new file with a `build` function, a line in [`build`] here, its
//! [`LocationKey`](crate::timeline::location::LocationKey) and what its region instances say in `emit`.

use crate::timeline::builder::TimelineBuilder;
use crate::timeline::model::ProcessModel;

pub mod channels;
mod communicators;
mod connections;
mod enqueue;
mod metrics;
mod parts;
mod plugins;
pub mod proxy_threads;
mod ranges;
pub mod steps;
mod streams;
mod threads;

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    threads::build(model, builder);
    ranges::build(model, builder);
    communicators::build(model, builder);
    connections::build(model, builder);
    steps::build(model, builder);
    plugins::build(model, builder);
    proxy_threads::build(model, builder);
    channels::build(model, builder);
    streams::build(model, builder);
    metrics::build(model, builder);
}
