//! From joined operations to lanes: the whole way, without OTF2.

use std::collections::BTreeSet;

use super::assembly::{Assembly, ThreadKey};
use super::callback_threads;
use super::canvas::{Canvas, Drawing, Lane, Scene};
use super::comm::Comms;
use super::correlate::Correlation;
use super::counts::Counts;
use super::gpu_clock::{GpuClock, gpu_clocks};
use super::interval::{Interval, intervals};
use super::kinds;
use super::lanes::{Happening, nest, weave};
use super::options::ArchiveOptions;
use super::room;
use super::words::Words;
use crate::journal::reader::Symbols;

/// A process, understood: what its operations mean and when they ran.
#[derive(Debug)]
pub struct Timeline {
    /// The links between operations.
    pub correlation: Correlation,
    /// The communicators.
    pub comms: Comms,
    /// The GPU clocks, by place of the context.
    pub gpu_clocks: Vec<GpuClock>,
    /// When operations ran, by place of the activity.
    pub intervals: Vec<Option<Interval>>,
    /// Which threads are CUDA's own.
    pub callback_threads: BTreeSet<ThreadKey>,
    /// What the strings mean.
    pub words: Words,
}

impl Timeline {
    /// Works out links, communicators, clocks and intervals. Times must be nanoseconds already.
    #[must_use]
    pub fn of(assembly: &Assembly, symbols: &Symbols) -> Self {
        let correlation = Correlation::of(assembly, symbols);
        let comms = Comms::of(assembly, &correlation.gpu.devices);
        let gpu_clocks = gpu_clocks(assembly, &correlation, &comms);
        let intervals = intervals(assembly, &correlation, &gpu_clocks);
        Self {
            correlation,
            comms,
            gpu_clocks,
            intervals,
            callback_threads: callback_threads::of(assembly),
            words: Words::of(symbols),
        }
    }

    /// What drawing needs; everything is drawn unless [`Scene::options`] says otherwise.
    #[must_use]
    pub fn scene<'a>(&'a self, assembly: &'a Assembly, symbols: &'a Symbols) -> Scene<'a> {
        Scene {
            assembly,
            correlation: &self.correlation,
            comms: &self.comms,
            gpu_clocks: &self.gpu_clocks,
            intervals: &self.intervals,
            callback_threads: &self.callback_threads,
            words: &self.words,
            symbols,
            options: ArchiveOptions::default(),
        }
    }
}

/// Draws a process.
#[must_use]
pub fn draw(scene: &Scene<'_>) -> (Drawing, Counts) {
    let mut canvas = Canvas::new(scene.assembly, scene.options.level);
    kinds::draw(scene, &mut canvas);
    canvas.finish(scene)
}

impl Lane {
    /// The events of the lane in a valid order, and how many items had to be cut to nest.
    #[must_use]
    pub fn happenings(self) -> (Vec<Happening>, u64) {
        self.happenings_in(Vec::new())
    }

    /// The same, in the memory of a list that is not needed any more.
    #[must_use]
    pub fn happenings_in(self, mut drawn: Vec<Happening>) -> (Vec<Happening>, u64) {
        let Self {
            mut items,
            messages,
            samples,
            ..
        } = self;
        drawn.clear();
        room::reserve(&mut drawn, 2 * items.len());
        let cut = nest(&mut items, &mut drawn);
        (weave(messages.merge(drawn), &samples), cut)
    }
}
