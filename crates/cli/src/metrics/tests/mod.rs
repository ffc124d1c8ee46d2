//! Checks the outputs for a snapshot with all metrics by the programs that read them.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::metrics::http::{OutputErrors, Request};
use clap::Parser;
use live::{
    Channel, CollectiveSkew, Communicator, Families, Family, Fit, Histogram, JobLabels, Names, Operation, Pair,
    Process, Proxy, Rank, Snapshot, Window,
};

mod collector;
mod names;
mod prometheus;
mod scrapes;
mod textfile;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    request: Request,
}

/// Parses `nccl-otf2 metrics DIR` with these arguments.
fn request(arguments: &[&str]) -> Request {
    let all = ["metrics", "trace"].iter().chain(arguments);
    Line::try_parse_from(all).unwrap_or_else(|error| panic!("{error}")).request
}

const BOUNDS: &[f64] = &[1e-5, 1e-3, 1.0];

fn times(counts: [u64; 4]) -> Histogram {
    Histogram { bounds: BOUNDS, counts: counts.to_vec(), sum_ns: 250_000_000 }
}

fn operation(function: &str, rank: u32, peer: Option<i32>) -> Operation {
    let window = Window { count: 2, bytes: 8 << 20, duration_ns: 4_000_000, algbw: Some(2.5e9), busbw: Some(5e9) };
    Operation {
        rank,
        function: function.to_owned(),
        is_point_to_point: peer.is_some(),
        peer,
        size_class: 4 << 20,
        timing: "kernelch",
        algorithm: "RING_LL".to_owned(),
        count: 7,
        bytes: 28 << 20,
        duration: times([1, 2, 3, 1]),
        window,
        ..Operation::default()
    }
}

fn everything() -> Snapshot {
    let fit = Fit { latency_ns: Some(12_500.0), rate: Some(1.25e10), r2: 0.875, points: 40 };
    let second = 1_000_000_000;
    let now = 1_700_000_000 * second;
    Snapshot {
        at_ns: now,
        interval_ns: 10 * second,
        job: JobLabels {
            host: "node7".to_owned(),
            job: "4711".to_owned(),
            launcher: "slurm".to_owned(),
            cluster: "alps".to_owned(),
        },
        processes: vec![Process {
            part: "node7-17".to_owned(),
            pid: 17,
            records: (1 << 53) + 1,
            behind_bytes: 4096,
            behind_ns: second / 2,
            ..Process::default()
        }],
        communicators: vec![Communicator { name: "a \"name\"\\\n".to_owned(), ranks: 2, here: 2, nodes: Some(1) }],
        ranks: vec![Rank {
            last_event_ns: Some(now - 3 * second),
            open: 1,
            oldest: Some(("ncclAllReduce".to_owned(), now - 4 * second)),
            last: 5,
            caused_waiting_ns: 1_500_000,
            ..Rank::default()
        }],
        operations: vec![
            operation("ncclAllReduce", 0, None),
            operation("ncclAllReduce", 1, None),
            operation("ncclSend", 0, Some(1)),
        ],
        pairs: vec![Pair {
            from: 0,
            to: 1,
            steps: 80,
            bytes: 1 << 20,
            all: Some(fit),
            least: Some(fit),
            rate: Some(1e10),
            ..Pair::default()
        }],
        channels: vec![Channel {
            channel: 3,
            peer: 1,
            is_send: true,
            steps: 80,
            bytes: 1 << 20,
            duration: times([70, 10, 0, 0]),
            ..Channel::default()
        }],
        proxies: vec![Proxy { gpu_wait_ns: 1, peer_wait_ns: 2, network_ns: 3, ..Proxy::default() }],
        skews: vec![CollectiveSkew { skew: times([4, 1, 0, 0]), count: 5, ..CollectiveSkew::default() }],
        folded: 2,
        ..Snapshot::default()
    }
}

fn ours() -> Vec<Family> {
    let mut families = Families::new(Names::Ours).collect(&everything());
    families.extend(OutputErrors::default().families());
    families
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").expect("an address").local_addr().expect("an address").to_string()
}

/// What a program prints about its input, and whether it accepts the input.
fn run_with_input(command: &mut Command, input: &str) -> (bool, String) {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("started");
    child.stdin.take().expect("stdin").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}
