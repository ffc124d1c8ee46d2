//! From joined operations to lanes: the whole way, without OTF2.

use std::collections::BTreeSet;

use crate::clocks::gpu::GpuClock;
use crate::links::callback_threads;
use crate::links::comm::Comms;
use crate::links::correlate::Correlation;
use crate::links::gpu_clocks::gpu_clocks;
use crate::links::interval::{Interval, intervals};
use crate::tables::assembly::{Assembly, ThreadKey};
use crate::tables::counts::Counts;
use crate::tables::words::Words;
use crate::timeline::canvas::{Canvas, Drawing, Lane, Scene};
use crate::timeline::kinds;
use crate::timeline::lanes::{Happening, Item, Nested, Woven, sort};
use crate::timeline::metrics::Sample;
use journal::part::options::ArchiveOptions;
use journal::reader::Symbols;

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
    /// Whether nothing happens on it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty() && self.has_only_items()
    }

    /// Whether nothing but intervals is on it, as on most.
    #[must_use]
    pub const fn has_only_items(&self) -> bool {
        self.messages.is_empty() && self.samples.is_empty()
    }

    /// Puts what is on it in the order that [`Self::happenings`] needs.
    pub fn sort(&mut self) {
        sort(&mut self.items);
        self.messages.sort();
    }

    /// The events of the lane, once sorted, in a valid order. `items` goes through [`Self::items`]; `cut` counts those that
    /// had to be cut to nest.
    pub fn happenings<'a>(
        &'a self,
        items: impl Iterator<Item = &'a Item>,
        cut: &'a mut u64,
    ) -> impl Iterator<Item = Happening> {
        let drawn = self.messages.merge(Nested::new(items, cut));
        Woven::new(drawn, self.samples.iter().map(Sample::happening))
    }
}
