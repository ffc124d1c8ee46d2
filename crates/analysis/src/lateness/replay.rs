//! What a job would have taken if kernels had begun earlier: its dependencies, played again.

use std::collections::VecDeque;
use std::ops::Range;

use crate::lateness::kernels::{Kernel, Kernels, covered_ns};
use crate::read::NONE;
use crate::units::real;
use nccl_events::collective::Flow;
use nccl_events::ids::{index as large, index_u32 as small};

/// A step of a replay. What is `Whole` is a collective; its kernels begin and end together. Others are single kernels,
/// whose ends may need the begins of other ranks'.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(u32),
    End(u32),
    Whole(u32),
}

/// The order in which the starts and ends of kernels follow from each other.
#[derive(Clone, Debug)]
pub(crate) struct Replay<'a> {
    kernels: &'a Kernels,
    steps: Vec<Step>,
}

/// The search for an order. Events are collectives, then the kernels that are in none.
struct Order<'a> {
    kernels: &'a Kernels,
    steps: Vec<Step>,
    /// By event: how many events it still needs, and the events that need it.
    needs: Vec<u32>,
    needed_by: Vec<Vec<u32>>,
    has_begun: Vec<bool>,
    /// By kernel: messages whose ends need its begin.
    waiting: Vec<Vec<u32>>,
    ready: VecDeque<u32>,
}

impl Order<'_> {
    fn event(&self, kernel: u32) -> u32 {
        event(self.kernels, kernel)
    }

    fn number(&mut self) {
        let events = self.kernels.collectives.len() + self.kernels.all.len();
        let mut pairs: Vec<(u32, u32)> = Vec::with_capacity(self.kernels.all.len());
        for (at, kernel) in (0..).zip(&self.kernels.all) {
            let own = self.event(at);
            let before = [kernel.before, kernel.after].into_iter().filter(|before| *before != NONE);
            pairs.extend(before.map(|before| (self.event(before), own)).filter(|(before, own)| before != own));
        }
        pairs.sort_unstable();
        pairs.dedup();
        self.needs = vec![0; events];
        self.needed_by = vec![Vec::new(); events];
        for (before, after) in pairs {
            self.needs[large(after)] += 1;
            self.needed_by[large(before)].push(after);
        }
        let mut is_event = vec![false; events];
        for at in 0..small(self.kernels.all.len()) {
            is_event[large(self.event(at))] = true;
        }
        self.ready.extend((0..small(events)).filter(|at| is_event[large(*at)] && self.needs[large(*at)] == 0));
    }

    fn end(&mut self, event: u32) {
        for after in std::mem::take(&mut self.needed_by[large(event)]) {
            self.needs[large(after)] -= 1;
            if self.needs[large(after)] == 0 {
                self.ready.push_back(after);
            }
        }
    }

    /// Ends a message kernel whose partners have begun, else notes for whom it waits.
    fn try_end(&mut self, kernel: u32) {
        let kernels = self.kernels;
        let missing = kernels.waited_for(&kernels.all[large(kernel)]).find(|other| !self.has_begun[large(*other)]);
        match missing {
            Some(other) => self.waiting[large(other)].push(kernel),
            None => {
                self.steps.push(Step::End(kernel));
                self.end(self.event(kernel));
            }
        }
    }

    fn find(&mut self) {
        let first_kernel = small(self.kernels.collectives.len());
        while let Some(event) = self.ready.pop_front() {
            let begun: Vec<u32> = match event.checked_sub(first_kernel) {
                None => {
                    self.steps.push(Step::Whole(event));
                    let collective = &self.kernels.collectives[large(event)];
                    self.kernels.members_of(collective).to_vec()
                }
                Some(kernel) => {
                    self.steps.push(Step::Begin(kernel));
                    vec![kernel]
                }
            };
            let mut woken: Vec<u32> = Vec::new();
            for kernel in &begun {
                self.has_begun[large(*kernel)] = true;
                woken.append(&mut self.waiting[large(*kernel)]);
            }
            match event.checked_sub(first_kernel) {
                None => self.end(event),
                Some(kernel) => self.try_end(kernel),
            }
            woken.into_iter().for_each(|kernel| self.try_end(kernel));
        }
    }
}

fn event(kernels: &Kernels, kernel: u32) -> u32 {
    match kernels.all[large(kernel)].collective {
        NONE => small(kernels.collectives.len()) + kernel,
        collective => collective,
    }
}

impl<'a> Replay<'a> {
    pub(crate) fn new(kernels: &'a Kernels) -> Self {
        let mut order = Order {
            kernels,
            steps: Vec::new(),
            needs: Vec::new(),
            needed_by: Vec::new(),
            has_begun: vec![false; kernels.all.len()],
            waiting: vec![Vec::new(); kernels.all.len()],
            ready: VecDeque::new(),
        };
        order.number();
        order.find();
        Self { kernels, steps: order.steps }
    }

    /// Start and end of each kernel, in ns, if those in `earlier` begin earlier by so much: kernels with their ns.
    pub(crate) fn times(&self, earlier: &[(u32, f64)]) -> Vec<(f64, f64)> {
        let kernels = &self.kernels.all;
        // What no order was found for keeps its times.
        let mut times: Vec<(f64, f64)> =
            kernels.iter().map(|kernel| (real(kernel.start_ns), real(kernel.stop_ns))).collect();
        let mut less = vec![0.0; kernels.len()];
        for (kernel, ns) in earlier {
            less[large(*kernel)] += ns;
        }
        let start = |times: &[(f64, f64)], at: u32| {
            let kernel = &kernels[large(at)];
            let begin = match kernels.get(large(kernel.before)) {
                Some(before) => times[large(kernel.before)].1 + real(kernel.start_ns) - real(before.stop_ns),
                None => real(kernel.start_ns),
            };
            let begin = begin - less[large(at)];
            if kernel.after == NONE { begin } else { begin.max(times[large(kernel.after)].1) }
        };
        let transfer = |at: u32| real(kernels[large(at)].stop_ns) - real(kernels[large(at)].base_ns());
        for step in &self.steps {
            match *step {
                Step::Begin(at) => times[large(at)].0 = start(&times, at),
                Step::End(at) => {
                    let partners = || self.kernels.waited_for(&kernels[large(at)]);
                    let came = partners().map(|other| times[large(other)].0).fold(f64::NEG_INFINITY, f64::max);
                    let recorded_ns = partners().map(|other| kernels[large(other)].start_ns).max().unwrap_or(0);
                    times[large(at)].1 =
                        base(&kernels[large(at)], times[large(at)].0, came, recorded_ns) + transfer(at);
                }
                Step::Whole(number) => self.play_collective(number, &mut times, start, transfer),
            }
        }
        times
    }

    fn play_collective(
        &self,
        number: u32,
        times: &mut [(f64, f64)],
        start: impl Fn(&[(f64, f64)], u32) -> f64,
        transfer: impl Fn(u32) -> f64,
    ) {
        let kernels = &self.kernels.all;
        let collective = &self.kernels.collectives[large(number)];
        let members = self.kernels.members_of(collective);
        for at in members {
            times[large(*at)].0 = start(times, *at);
        }
        let kernel = |at: &u32| &kernels[large(*at)];
        // By how much the last one comes later than in the recording. It need not be on the clocks of the others.
        let shift = members.iter().map(|at| times[large(*at)].0 - real(kernel(at).base_ns())).fold(f64::MIN, f64::max);
        let root = members.iter().find(|at| kernel(at).is_root);
        let others = || members.iter().filter(|at| !kernel(at).is_root);
        let last = others().map(|at| times[large(*at)].0).fold(f64::NEG_INFINITY, f64::max);
        let last_ns = others().map(|at| kernel(at).start_ns).max().unwrap_or(0);
        let root_begins = root.map(|at| (times[large(*at)].0, kernel(at).start_ns));
        for at in members {
            let (own, kernel) = (times[large(*at)].0, kernel(at));
            let base = match (collective.flow, root_begins) {
                // Without a rank, how long others waited is not known: it stays.
                _ if !collective.is_whole => own + real(kernel.wait_ns),
                (Flow::AllToAll, _) => real(kernel.base_ns()) + shift,
                (Flow::FromRoot, Some((begin, recorded_ns))) if !kernel.is_root => {
                    base(kernel, own, begin, recorded_ns)
                }
                (Flow::ToRoot, _) if kernel.is_root => base(kernel, own, last, last_ns),
                _ => own,
            };
            times[large(*at)].1 = base + transfer(*at);
        }
    }

    /// How long each rank is in operations after warm-up if kernels begin earlier.
    pub(crate) fn in_operations(&self, earlier: &[(u32, f64)]) -> Vec<f64> {
        let times = self.times(earlier);
        let counts = |at: &usize| !self.kernels.is_warm_up(&self.kernels.all[*at]);
        let of_rank = |range: &Range<usize>| {
            covered_ns(&mut range.clone().filter(counts).map(|at| times[at]).collect::<Vec<(f64, f64)>>())
        };
        self.kernels.ranks.iter().map(of_rank).collect()
    }
}

/// When what a kernel waits for has come, if it begins at `own` and the awaited one at `awaited`, which began at
/// `recorded_ns` in the recording. If the clocks could not tell that it waited, it does not here either.
fn base(kernel: &Kernel, own: f64, awaited: f64, recorded_ns: u64) -> f64 {
    match () {
        () if kernel.wait_ns > 0 => own.max(real(kernel.base_ns()) + awaited - real(recorded_ns)),
        () if recorded_ns <= kernel.start_ns => own.max(awaited),
        () => own,
    }
}
