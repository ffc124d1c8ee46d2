//! The report as far as it fits into a page: long tables keep what lost most, and plots fewer points.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::{io, mem};

use analysis::results::{Messages, OperationClass, Report};
use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use nccl_events::sort::Gather;

/// A table is not cut to fewer rows; there are fewer anomalies than twice as many.
const LEAST_ROWS: usize = 128;

/// How many rows of which tables were left out.
pub(super) type LeftOut = BTreeMap<&'static str, usize>;

/// Cuts tables until the report takes at most `most_bytes` in a page.
pub(super) fn cut(report: &mut Report, most_bytes: usize) -> Result<LeftOut> {
    let mut left_out = LeftOut::new();
    let mut rows = 8_192;
    while rows > LEAST_ROWS && packed_bytes(report)? > most_bytes {
        rows /= 2;
        keep("pairs", &mut report.pairs, rows, &mut left_out, |it| Reverse((it.excess_ns, it.bytes)));
        let by = |it: &Messages| Reverse((it.late_sender_ns + it.late_receiver_ns, it.bytes));
        keep("messages", &mut report.messages, rows, &mut left_out, by);
        operations(report, rows, &mut left_out);
        keep("phases", &mut report.phases, rows, &mut left_out, |it| Reverse(it.ranges_ns));
        if let Some(steps) = &mut report.steps {
            keep("steps", &mut steps.steps, rows, &mut left_out, |it| Reverse(it.duration_ns));
        }
        keep("communicator_calls", &mut report.communicator_calls, rows, &mut left_out, |it| Reverse(it.duration_ns));
        for link in report.pairs.iter_mut().chain(&mut report.channels) {
            let each = link.points.len().div_ceil((rows / 16).max(1)).max(1);
            link.points = link.points.iter().copied().step_by(each).collect();
        }
    }
    Ok(left_out)
}

/// Keeps the classes that took longest, and those of the anomalies, which name them by their place.
fn operations(report: &mut Report, rows: usize, left_out: &mut LeftOut) {
    let named: BTreeSet<u32> = report.anomalies.iter().map(|it| it.class).gather();
    let mut places: Vec<(u32, OperationClass)> = (0..).zip(mem::take(&mut report.operations)).collect();
    let key = |(place, it): &(u32, OperationClass)| (!named.contains(place), Reverse(it.budget.operations_ns));
    keep("operations", &mut places, rows, left_out, key);
    let numbers: BTreeMap<u32, u32> = places.iter().map(|(place, _)| *place).zip(0..).gather();
    for anomaly in &mut report.anomalies {
        anomaly.class = numbers.get(&anomaly.class).copied().unwrap_or(0);
    }
    report.operations = places.into_iter().map(|(_, it)| it).collect();
}

/// Keeps the first rows by a key, in their order.
fn keep<T, K: Ord>(name: &'static str, table: &mut Vec<T>, rows: usize, left_out: &mut LeftOut, key: impl Fn(&T) -> K) {
    if table.len() <= rows {
        return;
    }
    let mut order: Vec<usize> = (0..table.len()).collect();
    nccl_events::sort::sort_by_key(&mut order, |at| key(&table[*at]));
    let mut is_kept = vec![false; table.len()];
    order.into_iter().take(rows).for_each(|at| is_kept[at] = true);
    *left_out.entry(name).or_default() += table.len() - rows;
    let mut each = is_kept.into_iter();
    table.retain(|_| each.next() == Some(true));
}

/// The size of a report in a page.
pub(super) fn packed_bytes(report: &Report) -> Result<usize> {
    #[derive(Default)]
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut deflated = ZlibEncoder::new(Counted::default(), Compression::default());
    serde_json::to_writer(&mut deflated, report).context("cannot write JSON")?;
    let Counted(bytes) = deflated.finish().context("cannot deflate")?;
    // Base64 has four characters for three bytes.
    Ok(bytes.div_ceil(3) * 4)
}
