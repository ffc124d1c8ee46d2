//! Shares of time of every rank, drawn by the page if a view has too many events.

use serde::Serialize;

use super::events::{Event, NONE};
use super::places::Location;

/// Maximum bins per rank, and cells of all ranks: about a megabyte when deflated.
const MOST_BINS: u64 = 16_384;
const MOST_CELLS: u64 = 2_000_000;

#[derive(Clone, Copy, Debug, Serialize)]
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
    pub(super) fn of(events: &[Event], locations: &[Location], rows: usize, duration_ns: u64) -> Self {
        let most = MOST_CELLS / (rows.max(1) as u64);
        let bins = usize::try_from(most.clamp(256, MOST_BINS).min(duration_ns.max(1))).unwrap_or(256);
        #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
        let bin_ns = duration_ns.max(1) as f64 / bins as f64;
        let mut shares =
            Shares { bin_ns, bins, plane: rows * bins, cells: vec![0.0; 2 * rows * bins], most: Vec::new() };
        shares.most = vec![(0.0, 0); rows * bins];
        let mut functions: Vec<u32> = Vec::new();
        for event in events.iter().filter(|event| event.depth == 0) {
            let Some(location) = locations.get(usize::try_from(event.location).unwrap_or(usize::MAX)) else {
                continue;
            };
            if !location.is_operations() {
                continue;
            }
            let function = functions.iter().position(|name| *name == event.name).unwrap_or_else(|| {
                functions.push(event.name);
                functions.len() - 1
            });
            // It is unknown whether unfinished operations waited or transferred; they do not count as transfer.
            let waiting_ns = match event.waiting_ns {
                _ if event.is_unfinished => event.end_ns - event.begin_ns,
                NONE => 0,
                waiting_ns => waiting_ns,
            };
            let arrived = (event.begin_ns + waiting_ns).min(event.end_ns);
            shares.add(location.row, true, (event.begin_ns, arrived), 0);
            // Below 255: a timeline has a few dozen functions.
            shares.add(location.row, false, (arrived, event.end_ns), u8::try_from(function).unwrap_or(u8::MAX));
        }
        Self { bins: Bins { bin_ns, bins }, functions, cells: shares.bytes() }
    }
}

struct Shares {
    bin_ns: f64,
    bins: usize,
    plane: usize,
    cells: Vec<f32>,
    most: Vec<(f32, u8)>,
}

impl Shares {
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bins are few, and none is negative")]
    fn add(&mut self, row: usize, is_waiting: bool, (begin_ns, end_ns): (u64, u64), function: u8) {
        let [begin, end] = [begin_ns, end_ns].map(|ns| ns as f64 / self.bin_ns);
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

#[cfg(test)]
mod tests {
    use otf2::LocationRef;

    use super::super::places::Location;
    use super::*;

    /// Otherwise the page of a hang would show seconds of transfer.
    #[test]
    fn what_had_not_ended_is_no_transfer() {
        let locations = [Location::operations(LocationRef::new(0))];
        let ended = Event { begin_ns: 0, end_ns: 50, waiting_ns: NONE, ..Event::default() };
        let open = Event { begin_ns: 50, end_ns: 100, is_unfinished: true, ..ended };
        let made = Overview::of(&[ended, open], &locations, 1, 100);
        let (transfer, rest) = made.cells.split_at(made.bins.bins);
        assert!(transfer[..50].iter().all(|share| *share == 255) && transfer[50..].iter().all(|share| *share == 0));
        assert!(rest[..50].iter().all(|share| *share == 0) && rest[50..100].iter().all(|share| *share == 255));
    }
}
