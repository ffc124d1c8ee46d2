//! OpenTelemetry collectors: one from PyPI, a slow one and a dead one.

use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::metrics::Outputs;
use crate::metrics::tests::{everything, free_address, ours, request};
use live::{Family, Value};
use whole_plugin::machine::python_with;
use whole_plugin::process::{LIMIT, run, start, wait_for};

/// A family's name and values; for histograms, the number of observations.
#[expect(clippy::cast_precision_loss, reason = "as it is printed")]
fn numbers(family: &Family) -> (String, Vec<f64>) {
    let numbers = family.samples.iter().map(|sample| match &sample.value {
        Value::Number(number) => *number,
        Value::Count(count) => *count as f64,
        Value::Histogram(histogram) => histogram.count() as f64,
    });
    (family.name.to_string(), numbers.collect())
}

fn printed(metric: &str) -> (String, Vec<f64>) {
    let rest = |mark| metric.lines().filter_map(move |line| line.trim().strip_prefix(mark));
    let numbers = rest("Value: ").chain(rest("Count: ")).map(|number| number.parse().expect("a number"));
    (rest("-> Name: ").next().expect("a name").to_owned(), numbers.collect())
}

#[test]
fn a_collector_gets_all_metrics() {
    let Some(python) = python_with("rotel") else { return };
    let folder = run(Command::new(python).args(["-c", "import rotel, os; print(os.path.dirname(rotel.__file__))"]));
    let agent = format!("{}/rotel-agent", folder.with_code(0).stdout.trim());
    let (http, grpc) = (free_address(), free_address());
    let mut rotel = Command::new(agent);
    rotel.args(["start", "--exporter", "blackhole", "--debug-log", "metrics", "--debug-log-verbosity", "detailed"]);
    rotel.args(["--otlp-http-endpoint", &http, "--otlp-grpc-endpoint", &grpc]);
    let collector = start(&mut rotel);
    wait_for("collector", || std::net::TcpStream::connect(&http).ok());
    let mut outputs = Outputs::open(&request(&["--otlp", &format!("http://{http}")])).expect("outputs");
    outputs.publish(&everything()).expect("published");
    let errors = outputs.errors.clone();
    outputs.end().expect("ended");
    assert_eq!(errors.otlp.load(Ordering::Relaxed), 0);
    collector.signal("TERM");
    let output = collector.wait(LIMIT).with_code(0).stdout;
    let wanted: Vec<(String, Vec<f64>)> = ours().iter().map(numbers).collect();
    assert_eq!(output.split("\nMetric #").skip(1).map(printed).collect::<Vec<_>>(), wanted, "{output}");
}

#[test]
fn neither_a_dead_nor_a_slow_collector_holds_up_anybody() {
    // It accepts connections but never answers.
    let slow = TcpListener::bind("127.0.0.1:0").expect("an address");
    let slow = slow.local_addr().map(|address| (address.to_string(), slow)).expect("an address");
    for address in [&free_address(), &slow.0] {
        let mut outputs = Outputs::open(&request(&["--otlp", &format!("http://{address}")])).expect("outputs");
        let errors = outputs.errors.clone();
        let began = Instant::now();
        for _ in 0..50 {
            outputs.publish(&everything()).expect("goes on");
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let began = Instant::now();
        outputs.end().expect("ended");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let counts = [&errors.otlp, &errors.dropped].map(|count| count.load(Ordering::Relaxed));
        assert!(counts[0] + counts[1] >= 47, "{counts:?}");
    }
}
