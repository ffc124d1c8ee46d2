//! The share of time that each rank spends in transfer and in waiting. The page draws it where a view has too many
//! events, or where some were left out.

use analysis::read::NONE;
use analysis::{Analysis, Filter};
use nccl_events::ids::index as large;
use otf2::RegionRef;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum bins per rank, and cells of all ranks: about a megabyte when deflated.
const MOST_BINS: u64 = 16_384;
const MOST_CELLS: u64 = 2_000_000;

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct Bins {
    bin_ns: f64,
    bins: usize,
}

#[derive(Debug)]
pub(super) struct Overview {
    pub(super) bins: Bins,
    /// Names of regions that the third plane of `cells` refers to.
    pub(super) functions: Vec<u32>,
    /// Three planes of rows of bins: share of time in transfer and in waiting (0 to 255), and the function.
    pub(super) cells: Vec<u8>,
}

impl Overview {
    /// `rows`: the row of each rank of the job. `name`: the number of a region's name.
    pub(super) fn of(
        analysis: &Analysis,
        filter: &Filter,
        rows: &[Option<usize>],
        name: impl Fn(RegionRef) -> u32,
        span: (u64, u64),
    ) -> Self {
        let Analysis { tables, instances, .. } = analysis;
        let mut shares = Shares::of(rows.iter().flatten().count(), span);
        let mut functions: Vec<u32> = Vec::new();
        let mut last: Option<(RegionRef, usize)> = None;
        for (number, operation) in (0..).zip(tables.operations.rows()).filter(|(_, it)| it.member != NONE) {
            let row = rows.get(large(tables.job_rank(number))).copied().flatten();
            let Some(row) = row.filter(|_| filter.wants_time(operation.start_ns, operation.stop_ns)) else {
                continue;
            };
            let function = match last {
                Some((region, function)) if region == operation.function => function,
                _ => {
                    let name = name(operation.function);
                    functions.iter().position(|known| *known == name).unwrap_or_else(|| {
                        functions.push(name);
                        functions.len() - 1
                    })
                }
            };
            last = Some((operation.function, function));
            let instance = instances.of_operation(number).and_then(|at| instances.all.get(large(at)));
            // It is unknown whether unfinished operations waited or transferred; they do not count as transfer.
            let waiting_ns = match operation.is_unfinished {
                true => operation.duration_ns(),
                false => instance.and_then(|it| it.waiting_ns(tables, number)).unwrap_or(0),
            };
            let arrived = (operation.start_ns + waiting_ns).min(operation.stop_ns);
            shares.add(row, true, (operation.start_ns, arrived), 0);
            // Below 255: a timeline has a few dozen functions.
            shares.add(row, false, (arrived, operation.stop_ns), u8::try_from(function).unwrap_or(u8::MAX));
        }
        Self { bins: Bins { bin_ns: shares.bin_ns, bins: shares.bins }, functions, cells: shares.bytes() }
    }
}

struct Shares {
    begin_ns: u64,
    bin_ns: f64,
    bins: usize,
    plane: usize,
    cells: Vec<f32>,
    most: Vec<(f32, u8)>,
}

impl Shares {
    fn of(rows: usize, (begin_ns, end_ns): (u64, u64)) -> Self {
        let duration_ns = end_ns.saturating_sub(begin_ns).max(1);
        let most = MOST_CELLS / (rows.max(1) as u64);
        let bins = usize::try_from(most.clamp(256, MOST_BINS).min(duration_ns)).unwrap_or(256);
        #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
        let bin_ns = duration_ns as f64 / bins as f64;
        let plane = rows * bins;
        Self { begin_ns, bin_ns, bins, plane, cells: vec![0.0; 2 * plane], most: vec![(0.0, 0); plane] }
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bins are few, and none is negative")]
    fn add(&mut self, row: usize, is_waiting: bool, (begin_ns, end_ns): (u64, u64), function: u8) {
        let [begin, end] = [begin_ns, end_ns].map(|ns| ns.saturating_sub(self.begin_ns) as f64 / self.bin_ns);
        let last = (end as usize).min(self.bins - 1);
        for bin in (begin as usize).min(last)..=last {
            let part = (end.min(bin as f64 + 1.0) - begin.max(bin as f64)).max(0.0) as f32;
            let cell = row * self.bins + bin;
            self.cells[cell + if is_waiting { self.plane } else { 0 }] += part;
            if !is_waiting && self.most[cell].0 < part {
                self.most[cell] = (part, function);
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares are cut to 0 … 255")]
    fn bytes(&self) -> Vec<u8> {
        let shares = self.cells.iter().map(|share| (share.min(1.0) * 255.0).round() as u8);
        shares.chain(self.most.iter().map(|(_, function)| *function)).collect()
    }
}
