//! The names, labels and units of NVIDIA's inspector plugin, for the last interval.

use crate::metric::{Family, Label};
use crate::snapshot::{Operation, Snapshot, real};

use super::rows::{Row, Table, communicator, join, short};

pub(super) fn families(snapshot: &Snapshot) -> Vec<Family> {
    let mut out = Vec::new();
    for (is_point_to_point, bandwidth, time) in [
        (false, "nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds"),
        (true, "nccl_p2p_bus_bandwidth_gbs", "nccl_p2p_exec_time_microseconds"),
    ] {
        let rows = snapshot.operations.iter().filter(|it| it.is_point_to_point == is_point_to_point);
        let rows: Vec<Row<_>> = join(rows.map(|it| (labels(snapshot, it), it)));
        let mut table = Table { families: &mut out, rows: &rows };
        table.gauge(bandwidth, "Bus bandwidth in GB/s", |(window, ..)| window.busbw.map(|busbw| busbw / 1e9));
        table.gauge(time, "Execution time in microseconds", |(window, ..)| {
            (window.count > 0).then_some(real(window.duration_ns) / real(window.count) / 1e3)
        });
    }
    out
}

fn labels(snapshot: &Snapshot, operation: &Operation) -> Vec<Label> {
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let communicator = communicator(snapshot, operation.communicator);
    let nodes = communicator.nodes.or((communicator.here == communicator.ranks).then_some(1));
    let mut labels = vec![
        ("version", concat!("nccl-otf2-", env!("CARGO_PKG_VERSION")).to_owned()),
        ("cluster", known(&snapshot.job.cluster)),
        ("slurm_job_id", known(&snapshot.job.job)),
        ("node", known(&snapshot.job.host)),
        // The inspector's label distinguishes the ranks of a node; dashboards take the mean over it.
        ("gpu", format!("rank{}", operation.rank)),
        ("comm_name", known(&communicator.name)),
        ("n_nodes", nodes.map_or_else(|| known(""), |nodes| nodes.to_string())),
        ("nranks", communicator.ranks.to_string()),
    ];
    let function = short(&operation.function).to_owned();
    labels.push((if operation.is_point_to_point { "p2p_operation" } else { "collective" }, function));
    labels.push(("message_size", message_size(operation.size_class)));
    if !operation.is_point_to_point {
        labels.push(("algo_proto", known(&operation.algorithm)));
    }
    labels
}

/// `4-5MB` for 4 MiB: the inspector's class of the smallest size in our class.
fn message_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut units = UNITS.iter();
    let (mut value, mut unit) = (bytes, units.next());
    while value >= 1024
        && let Some(next) = units.next()
    {
        value /= 1024;
        unit = Some(next);
    }
    let unit = unit.copied().unwrap_or_default();
    if bytes == 0 { "0B".to_owned() } else { format!("{value}-{}{unit}", value + 1) }
}

#[cfg(test)]
mod tests {
    use super::message_size;

    #[test]
    fn sizes_are_written_as_the_inspector_writes_them() {
        let sizes = [0, 1, 512, 1024, 4 << 20, 512 << 20, 1 << 30, 2 << 50].map(message_size);
        assert_eq!(sizes, ["0B", "1-2B", "512-513B", "1-2KB", "4-5MB", "512-513MB", "1-2GB", "2048-2049TB"]);
    }
}
