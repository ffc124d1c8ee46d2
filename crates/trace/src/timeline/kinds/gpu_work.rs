//! Kernels and copies on the lanes of their CUDA streams.

use std::collections::BTreeMap;

use crate::links::gpu_work::Row;
use crate::tables::place::place;
use crate::timeline::canvas::{Canvas, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::{Item, LaneKey, Siblings};

pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut rows: BTreeMap<Row, Siblings> = BTreeMap::new();
    // They come by start.
    for (at, work) in scene.correlation.gpu.all.iter().enumerate() {
        let (start, end) = (work.start, work.end);
        let sibling = rows.entry(work.row).or_default().take(start, end);
        let figure = Figure::of(place(at), Shape::Work);
        let key = LaneKey::Stream(work.row);
        canvas.on_lane(key, sibling, Item { start, end, figure });
    }
}
