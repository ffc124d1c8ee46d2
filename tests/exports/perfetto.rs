//! Perfetto's trace processor answers SQL over what was exported, and says what the archive says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use whole_plugin::jobs::jobs;
use whole_plugin::machine::{RELEASE, perfetto_viewer, two_process_streams};
use whole_plugin::process::run;
use whole_plugin::{built, scratch::Scratch};

use whole_plugin::regions::{first_of_lane, row_of};

const EVERYTHING: &str = include_str!("../support/everything.script");

struct Exported {
    viewer: PathBuf,
    file: PathBuf,
    said: Value,
}

impl Exported {
    /// Exports the archive of [`Scratch::out`] with these options; nothing where there is no trace processor.
    fn export(scratch: &Scratch, options: &[&str]) -> Option<Self> {
        let viewer = perfetto_viewer()?;
        let name = format!("job{}.pftrace", options.concat());
        let mut tool = scratch.tool(&["export", "--format", "perfetto", "out", "-o", &name, "--json"]);
        let said = run(tool.args(options)).with_code(0).stdout;
        Some(Self { said: serde_json::from_str(&said).expect("JSON"), viewer, file: scratch.path().join(name) })
    }

    /// Asks the trace processor, which may have nothing to complain of; gives the rows of each query.
    fn rows<const N: usize>(&self, queries: [&str; N]) -> [Rows; N] {
        const COMPLAINTS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
        let mut node = Command::new("node");
        node.arg(built::root().join("tests/support/trace_processor.cjs")).arg(&self.viewer).arg(&self.file);
        let answers = run(node.arg(COMPLAINTS).args(queries)).with_code(0).stdout;
        // The WebAssembly has remarks of its own on stdout.
        let lines = answers.lines().filter(|line| line.starts_with('['));
        let mut answers =
            lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
        assert_eq!(answers.next(), Some(Rows::new()));
        std::array::from_fn(|_| answers.next().expect("an answer"))
    }

    /// The same of queries for one number.
    fn numbers<const N: usize>(&self, queries: [&str; N]) -> [u64; N] {
        self.rows(queries).map(|rows| rows[0][0].as_u64().unwrap_or_else(|| panic!("{rows:?}")))
    }
}

type Rows = Vec<Vec<Value>>;

fn replayed(streams: &[PathBuf]) -> Scratch {
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(streams)).with_code(0);
    scratch
}

fn everything() -> Scratch {
    let scratch = Scratch::new();
    let mut script = scratch.script(EVERYTHING);
    let _recorded = run(script.args(["--nccl", "23103"])).with_code(0);
    let _written = scratch.finalize();
    scratch
}

/// A slice: its track, name, begin, length and arguments.
type Slice = (String, String, u64, u64, BTreeMap<String, String>);

/// A number that was read from JSON, whose last digits are not sure.
fn real(number: f64) -> String {
    format!("{number:.6e}")
}

/// The region instances and records of the archive.
fn slices_of_archive(scratch: &Scratch) -> Vec<Slice> {
    let regions = scratch.archive().regions().into_iter().map(|region| {
        let row = row_of(&region);
        let attributes = region.attributes.into_iter().map(|(name, value)| {
            let float = value.strip_prefix("F64(").and_then(|rest| rest.strip_suffix(')'));
            (name, float.map(|digits| real(digits.parse().expect("a number"))).unwrap_or(value))
        });
        (row, region.name, region.start_ns, region.end_ns - region.start_ns, attributes.collect())
    });
    let mut regions: Vec<Slice> = regions.collect();
    regions.sort();
    regions
}

fn slices_of_perfetto(exported: &Exported) -> Vec<Slice> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let [rows, argument_rows] = exported.rows([
        "select coalesce(track.name, thread.name), slice.name, ts, dur, slice.arg_set_id, depth from slice
         join track on track.id = slice.track_id
         left join thread_track on thread_track.id = track.id left join thread using (utid)",
        "select arg_set_id, key, value_type, string_value, int_value, real_value from args",
    ]);
    let mut arguments: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    for row in argument_rows {
        let key = text(&row[1]);
        let Some(name) = key.strip_prefix("debug.") else { continue };
        let value = match text(&row[2]).as_str() {
            "string" => text(&row[3]),
            "real" => real(row[5].as_f64().expect("a number")),
            // SQLite has signed numbers only.
            "uint" => row[4].as_i64().expect("a number").cast_unsigned().to_string(),
            _ => text(&row[4]),
        };
        arguments.entry(row[0].as_u64().expect("a set")).or_default().insert(name.to_owned(), value);
    }
    let slices = rows.into_iter().map(|row| {
        let arguments = row[4].as_u64().and_then(|set| arguments.get(&set).cloned()).unwrap_or_default();
        let number = |at: usize| row[at].as_u64().unwrap_or_else(|| panic!("{row:?}"));
        let name = text(&row[1]);
        let plain = name.strip_suffix(", unfinished");
        let is_unfinished = arguments.get("nccl.unfinished").is_some_and(|value| value == "1");
        assert_eq!(plain.is_some(), is_unfinished, "{row:?}");
        assert!(number(5) == 0 || !arguments.contains_key("nccl.duration_ns"), "records overlap on a track: {row:?}");
        let track = first_of_lane(row[0].as_str().expect("a name")).to_owned();
        (track, plain.unwrap_or(&name).to_owned(), number(2), number(3), arguments)
    });
    let mut slices: Vec<Slice> = slices.collect();
    slices.sort();
    slices
}

#[test]
fn every_region_instance_is_a_slice_with_its_times_and_attributes() {
    for scratch in jobs().map(|(_, scratch)| scratch).chain([everything()]) {
        let Some(exported) = Exported::export(&scratch, &[]) else { return };
        let (wanted, found) = (slices_of_archive(&scratch), slices_of_perfetto(&exported));
        for (wanted, found) in wanted.iter().zip(&found) {
            assert_eq!(wanted, found);
        }
        assert_eq!(wanted.len(), found.len());
        assert_eq!(exported.said["events"], wanted.len() as u64);
    }
}

#[test]
fn what_had_not_ended_says_so() {
    let scratch = Scratch::new();
    let script = "init c id=1 ranks=2 rank=0\nstart co Coll ctx=c rank=0 func=AllReduce count=8 datatype=ncclFloat32\n";
    let _recorded = run(&mut scratch.script(script)).with_code(0);
    let _written = scratch.finalize();
    let Some(exported) = Exported::export(&scratch, &[]) else { return };
    let [names] = exported.rows(["select name, category from slice where category glob 'operation*'"]);
    assert_eq!(names, [["NCCL AllReduce, unfinished", "operation,unfinished"]]);
}

/// A real job: in a replay nothing relates the times of one process to those of another.
#[test]
fn arrows_lead_from_calls_to_the_network_and_from_rank_to_rank() {
    let scratch = Scratch::new();
    let arguments =
        ["--procs", "2", "--threads", "1", "--rounds", "3", "--ops", "allreduce,sendrecv", "--count", "5000"];
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "full"], &arguments) else { return };
    let _ended = run(&mut job).with_code(0);
    let Some(exported) = Exported::export(&scratch, &[]) else { return };
    let [arrows, counts] = exported.rows([
        "select a.category, b.category, count(*), count(iif(ta.upid != tb.upid, 1, null)), min(b.ts - a.ts) from flow
         join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in
         left join process_track ta on ta.id = a.track_id left join process_track tb on tb.id = b.track_id
         group by 1, 2",
        "select name, count(*) from slice where category in ('operation', 'transfer') group by 1",
    ]);
    let count = |name: &str| counts.iter().find(|row| row[0] == name).map_or(0, |row| row[1].as_u64().unwrap());
    let arrows_of = |from: &str, to: &str| {
        let found = arrows.iter().find(|row| row[0] == from && row[1] == to);
        found.map_or((0, 0), |row| (row[2].as_u64().expect("a number"), row[3].as_u64().expect("a number")))
    };
    let messages = count("NCCL Send");
    let operations = count("NCCL AllReduce") + messages + count("NCCL Recv");
    assert!(messages > 0 && operations > 2 * messages, "{counts:?}");
    assert_eq!(arrows_of("call", "launch").0, operations, "{arrows:?}");
    assert_eq!(arrows_of("launch", "operation").0, operations, "{arrows:?}");
    // A proxy may begin before the kernel does.
    let transfers = arrows_of("operation", "transfer").0 + arrows_of("transfer", "operation").0;
    assert_eq!(transfers, count("netSend") + count("netRecv"), "{arrows:?}");
    // Between two ranks, one arrow for each collective and each message.
    let between = count("NCCL AllReduce") / 2 + messages;
    assert_eq!(arrows_of("operation", "operation"), (between, between), "{arrows:?}");
}

#[test]
fn processes_threads_and_gpus_have_their_names() {
    let scratch = replayed(&two_process_streams());
    let Some(exported) = Exported::export(&scratch, &[]) else { return };
    let [processes, ranks, below, slots] = exported.numbers([
        "select count(*) from process where pid > 0",
        "select count(*) from track join track up on up.id = track.parent_id
         where track.name glob 'NCCL * rank ?' and up.name glob 'GPU *'",
        "select count(*) from track join track up on up.id = track.parent_id where track.name = up.name || substr(track.name, -3)",
        "select count(*) from track where name glob 'net * s[0-9]'",
    ]);
    assert_eq!((processes, ranks), (2, 2));
    assert_eq!(below, slots);
    assert!(slots > 0);
    let [threads] = exported.rows(["select thread.name, tid from thread join thread_track using (utid)"]);
    let is_named = |row: &Vec<Value>| row[0].as_str().is_some_and(|name| name.ends_with(&format!(" {}", row[1])));
    assert!(threads.len() >= 4 && threads.iter().all(is_named), "{threads:?}");
}

/// What a counter adds up to over time is what its slices say: bytes × ns, or 10⁹ × bytes of a bandwidth.
#[test]
fn counters_add_up_to_what_the_slices_say() {
    let sum = |counter: &str| {
        format!(
            "with sample as (select value, ts, lead(ts) over (partition by track_id order by ts) as next from counter
             join counter_track on counter_track.id = track_id where name = 'nccl.{counter}')
             select sum(value * (next - ts)) from sample"
        )
    };
    let operations = "category = 'operation' and extract_arg(arg_set_id, 'debug.nccl.event') is not null";
    let over = |what: &str, of: &str| {
        let what = what.replace('[', "extract_arg(arg_set_id, 'debug.nccl.").replace(']', "')");
        format!("select coalesce(sum({what}), 0) from slice where {of}")
    };
    let rates = "coalesce([algbw] * dur, iif(name in ('NCCL Send', 'NCCL Recv')
                 and [timing] not in ('enqueue', 'shared-kernel'), [bytes] * 1e9, 0))";
    let steps = over("[bytes] * 1e9", "name in ('send step', 'receive step')");
    let transfers = over("[wire_bytes] * 1e9", "name in ('netSend', 'netRecv')");
    for (level, moved) in [("full", steps), ("standard", transfers)] {
        let scratch = Scratch::new();
        let _replayed = run(scratch.replay(&two_process_streams()).env("NCCL_OTF2_LEVEL", level)).with_code(0);
        let Some(exported) = Exported::export(&scratch, &["--counters"]) else { return };
        let [last, names] = exported.rows([
            "select distinct value from counter where (track_id, ts) in
             (select track_id, max(ts) from counter group by track_id)",
            "select name, unit, count(*) > 1 from counter_track group by 1, 2 order by 1",
        ]);
        assert_eq!(last, [[0.0]]);
        let [bandwidth, bytes, network] =
            [("bandwidth", "bytes/s"), ("bytes_in_flight", "bytes"), ("network_bandwidth", "bytes/s")]
                .map(|(name, unit)| [Value::from(format!("nccl.{name}")), unit.into(), 1.into()]);
        assert_eq!(names, [bandwidth, bytes, network]);
        let [slices, counters] = exported.numbers(["select count(*) from slice", "select count(*) from counter"]);
        assert_eq!(exported.said["events"], slices + counters);
        for (counter, wanted) in [
            ("bytes_in_flight", over("[bytes] * dur", operations)),
            ("bandwidth", over(rates, operations)),
            ("network_bandwidth", moved.clone()),
        ] {
            let [found, wanted] = exported.rows([&*sum(counter), &*wanted]).map(|rows| rows[0][0].as_f64());
            let (found, wanted) = (found.expect("a number"), wanted.expect("a number"));
            assert!(wanted > 0.0 && (found / wanted - 1.0).abs() < 1e-6, "{level} {counter}: {found} and {wanted}");
        }
    }
    let scratch = replayed(&two_process_streams());
    let refused =
        run(&mut scratch.tool(&["export", "--format", "kineto", "out", "-o", "k", "--counters"])).with_code(2);
    assert!(refused.stderr.contains("only for --format perfetto"), "{}", refused.stderr);
}

#[test]
fn what_is_left_is_what_was_asked_for() {
    let scratch = replayed(&two_process_streams());
    let Some(exported) = Exported::export(&scratch, &["--rank=1", "--function=Send"]) else { return };
    let [names, processes, transfers] = exported.rows([
        "select distinct name from slice where category = 'operation'",
        "select count(*) from process where pid > 0",
        "select distinct name from slice where name glob '*net*' or name glob '* step' order by 1",
    ]);
    assert_eq!((names, processes), (vec![vec!["NCCL Send".into()]], vec![vec![1.into()]]));
    assert_eq!(transfers, [["netSend"], ["send step"]]);

    let Some(all) = Exported::export(&scratch, &[]) else { return };
    // By the order of slices: of the time between the first and the last, most may be a pause between two processes.
    let nth = |third: u8| {
        format!("select ts from slice order by ts limit 1 offset (select count(*) * {third} / 3 from slice)")
    };
    let [begin, from, to] = all.numbers(["select min(ts) from slice", &nth(1), &nth(2)]);
    let times = [format!("--from={}ns", from - begin), format!("--to={}ns", to - begin)];
    let Some(window) = Exported::export(&scratch, &times.each_ref().map(String::as_str)) else { return };
    let sum = "select count(*), sum(dur) from slice";
    assert_eq!(window.rows([sum]), all.rows([&format!("{sum} where ts + dur >= {from} and ts <= {to}")]));
    let [kept, before] = [&window, &all].map(|one| one.numbers(["select count(*) from slice"])[0]);
    assert!(0 < kept && kept < before, "{kept} of {before}");
}
