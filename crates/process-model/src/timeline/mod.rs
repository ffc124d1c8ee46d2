//! Locations with their region instances, messages and metrics: one file in [`locations`] for each kind of location.

pub mod builder;
pub mod events;
pub mod instance;
mod instance_kind;
pub mod location;
pub mod locations;
pub mod measurement;
pub mod messages;
pub mod metrics;
pub mod model;
mod region;

use self::builder::{Timeline, TimelineBuilder};
use self::model::ProcessModel;
use nccl_events::schema::Counts;

pub fn build(model: &ProcessModel<'_>) -> (Timeline, Counts) {
    let mut builder = TimelineBuilder::new(model.tables, model.options.level);
    locations::build(model, &mut builder);
    builder.finish(model)
}
