//! One file per group of event kinds: which lanes its operations go on, and as what.
//!
//! A new kind is a new file with a `draw` function, a line in [`draw`] here, its shapes in
//! [`crate::timeline::figure`] and its attributes in [`crate::emit::attributes`].

mod by_lane;
mod calls;
pub(crate) mod channels;
pub(crate) mod controls;
mod copy_engine;
mod enqueue;
mod gpu_work;
mod metrics;
mod net_plugin;
mod network;
mod operations;
mod parts;
mod phases;
pub(crate) mod steps;

use crate::timeline::canvas::{Canvas, Scene};

/// Draws everything.
pub(crate) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
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
