//! Describes the GPUs in one line for people.

use nccl_events::schema::Statements;

use crate::units::{count, plural};

/// `None` if no GPU could be queried.
pub(crate) fn line(statements: &Statements) -> Option<String> {
    let (backends, counts) = (statements.gpu_backend.shown(), &statements.gpu_counts);
    if backends.is_empty() && counts.named().all(|(_, number)| number == 0) && statements.gpu_devices.get() == 0 {
        return None;
    }
    let backends = if backends.is_empty() { "no way is stated".to_owned() } else { backends.join(" and ") };
    let mut facts = vec![backends];
    let mut fact = |some: u64, text: String| facts.extend((some > 0).then_some(text));
    let devices = statements.gpu_devices.get();
    fact(devices, plural(devices, "device", "devices"));
    let ran = counts.launches.saturating_sub(counts.captured);
    // A flight recording keeps only the last times, and a killed process's counts are up to a second old.
    let timed = if statements.flight_processes.get() > 0 || counts.launches_timed > ran {
        plural(counts.launches_timed, "launch", "launches")
    } else {
        format!("{} of {}", count(counts.launches_timed), plural(ran, "launch", "launches"))
    };
    fact(counts.launches, format!("{timed} timed"));
    for (number, one, many) in [
        (counts.kernels_joined + counts.kernels_of_graphs, "kernel of NCCL's", "kernels of NCCL's"),
        (counts.kernels_of_graphs_unknown, "of a graph, operation unknown", "of graphs, operation unknown"),
        (counts.kernels_without_launch, "without its launch", "without their launches"),
        (counts.kernels_other, "other kernel", "other kernels"),
        (counts.copies_shown, "copy", "copies"),
        (counts.not_placed, "without a place in time", "without a place in time"),
    ] {
        fact(number, plural(number, one, many));
    }
    Some(facts.join(", "))
}

#[cfg(test)]
mod tests {
    use nccl_events::schema::{GpuCounts, Lines, Sum};

    use super::*;

    #[test]
    fn the_line_says_what_is_missing() {
        assert_eq!(line(&Statements::default()), None);
        let mut statements = Statements {
            gpu_backend: Lines::of(["cupti"]),
            gpu_devices: Sum(Some(2)),
            gpu_counts: GpuCounts {
                launches: 10,
                captured: 3,
                kernels_joined: 6,
                kernels_of_graphs_unknown: 4,
                ..GpuCounts::default()
            },
            ..Statements::default()
        };
        for (launches_timed, flights, timed) in [(6, 0, "6 of 7"), (8, 0, "8"), (6, 1, "6")] {
            statements.gpu_counts.launches_timed = launches_timed;
            statements.flight_processes = Sum(Some(flights));
            let rest = "launches timed, 6 kernels of NCCL's, 4 of graphs, operation unknown";
            assert_eq!(line(&statements), Some(format!("cupti, 2 devices, {timed} {rest}")));
        }
    }
}
