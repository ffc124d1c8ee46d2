//! Locations with their region instances, messages and metrics: one file in [`locations`] for each kind of location.

pub(crate) mod builder;
pub(crate) mod events;
pub(crate) mod instance;
mod instance_kind;
pub(crate) mod location;
pub(crate) mod locations;
pub(crate) mod measurement;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod model;
mod region;

use self::builder::{Timeline, TimelineBuilder};
use self::model::ProcessModel;
use schema::Counts;

pub(crate) fn build(model: &ProcessModel<'_>) -> (Timeline, Counts) {
    let mut builder = TimelineBuilder::new(model.tables, model.options.level);
    locations::build(model, &mut builder);
    builder.finish(model)
}
