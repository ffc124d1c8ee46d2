//! One file per group of event kinds: which lanes its operations go on, and as what.
//!
//! A new kind is a new file with a `draw` function, a line in [`draw`] here, its shapes in
//! [`super::figure`] and its attributes in [`super::attributes`].

mod by_lane;
mod calls;
pub(super) mod channels;
pub(super) mod controls;
mod copy_engine;
mod enqueue;
mod gpu_work;
mod metrics;
mod net_plugin;
mod network;
mod operations;
mod parts;
mod phases;
pub(super) mod steps;

use super::canvas::{Canvas, Scene};

/// Draws everything.
pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    calls::draw(scene, canvas);
    enqueue::draw(scene, canvas);
    copy_engine::draw(scene, canvas);
    operations::draw(scene, canvas);
    network::draw(scene, canvas);
    steps::draw(scene, canvas);
    net_plugin::draw(scene, canvas);
    controls::draw(scene, canvas);
    channels::draw(scene, canvas);
    gpu_work::draw(scene, canvas);
    metrics::draw(scene, canvas);
}
