//! NCCL's topology in the archive: what real releases dump on played hosts, and what becomes of bad files.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;
use whole_plugin::machine::tested;
use whole_plugin::process::{LIMIT, run, run_within};
use whole_plugin::scratch::Scratch;

/// Two hosts of a rank each: GPUs of the stand-in do not reach each other.
const TWO_HOSTS: [&str; 6] = ["--procs", "2", "--threads", "1", "--host-clocks", "0,0;1000000,0"];
const WITH_STEPS: [&str; 2] = ["--events", "standard,ProxyStep"];

fn record(scratch: &Scratch, release: &str, options: &[&str], ops: &str, edit: impl Fn(&mut Command)) -> Option<Value> {
    let options = [&WITH_STEPS, options].concat();
    let arguments = [&TWO_HOSTS[..], &["--launcher", "--rounds", "3", "--ops", ops]].concat();
    let mut job = scratch.run_nccl(release, &options, &arguments)?;
    edit(&mut job);
    let _ended = run_within(LIMIT, &mut job).with_code(0);
    let said = run(scratch.tool(&["stats", "--json"]).arg(scratch.out())).with_code(0).stdout;
    Some(serde_json::from_str(&said).expect("JSON"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("{name} in {value:#}"))
}

fn sum(values: &[Value], name: &str) -> u64 {
    values.iter().map(|value| value[name].as_u64().unwrap_or(0)).sum()
}

/// The plugin is called before the topology is known up to 2.26, and after it from 2.27 on, where NVTX calls it before.
#[test]
fn releases_dump_their_topology_into_the_archive() {
    for (release, has_sizes) in tested([("2.26.5", false), ("2.32.3", true)], |case| case.0) {
        let scratch = Scratch::new();
        let Some(report) = record(&scratch, release, &[], "one,sendrecv,split", |_| {}) else { continue };
        let topology = &report["topology"];
        assert_eq!(list(topology, "unused"), &[] as &[Value], "{release}");
        let ranks: Vec<_> =
            list(topology, "hosts").iter().map(|host| (&host["name"], &host["gpus"][0]["rank"])).collect();
        let expected = [("nccl-host-0".into(), 0.into()), ("nccl-host-1".into(), 1.into())];
        assert_eq!(ranks, expected.each_ref().map(|(name, rank): &(Value, Value)| (name, rank)), "{release}");
        // A ring of one rank a host, in and out by its only interface.
        for (host, nic) in [(0, 0), (1, 1)] {
            let mut graphs = list(topology, "graphs").iter();
            let ring = graphs.find(|graph| graph["host"] == host && graph["kind"] == "RING").expect("a ring");
            let channel = &ring["channels"][0];
            assert_eq!(
                [&channel["nic_in"], &channel["ranks"][0], &channel["nic_out"]],
                [&nic, &host, &nic].map(|number| number)
            );
        }
        let nics = list(&report, "nics");
        // nccl-host has NCCL use the loopback interface, whose speed NCCL takes to be 10 Gbit/s.
        for nic in nics {
            assert_eq!((nic["name"].as_str(), nic["speed"].as_f64()), (Some("lo"), Some(1.25e9)), "{release}");
            assert_eq!(nic["sent_bytes"].is_u64(), has_sizes, "{release}: {nic}");
        }
        if has_sizes {
            assert_eq!(sum(nics, "sent_bytes"), sum(list(&report, "pairs"), "bytes"));
            assert_eq!(sum(nics, "sent_bytes"), sum(nics, "received_bytes"));
            assert!(sum(nics, "sent_bytes") > 0 && topology["bytes_elsewhere"] == 0);
            for pair in list(&report, "pairs") {
                assert_eq!([&pair["from_nics"][0], &pair["to_nics"][0]], [&pair["from"], &pair["to"]], "{pair:#}");
            }
        }
        let shown = run(scratch.tool(&["stats", "--by", "nic", "--csv"]).arg(scratch.out())).with_code(0).stdout;
        assert_eq!(shown.lines().filter(|line| line.contains(",lo,")).count(), 2, "{shown}");
    }
}

#[test]
fn what_is_off_or_unreadable_is_not_there() {
    let scratch = Scratch::new();
    let Some(report) = record(&scratch, "2.32.3", &["--topology", "off"], "one", |_| {}) else { return };
    assert!(
        report["topology"].is_null() && list(&report, "nics").is_empty() && !scratch.out().join("topology").exists()
    );
    assert!(list(&report, "operations").iter().all(|class| class["expected_busbw"].is_null()));

    // A file where the directory of dumps would be does not stop the job.
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.out()).expect("made");
    fs::write(scratch.out().join("topology"), "").expect("written");
    assert!(record(&scratch, "2.32.3", &[], "one", |_| {}).is_some_and(|report| report["topology"].is_null()));

    let scratch = Scratch::new();
    let topology = scratch.out().join("topology");
    fs::create_dir_all(&topology).expect("made");
    fs::write(topology.join("system-0000000000000001-00.xml"), "<graphs version=\"1\"><graph id=\"0\"")
        .expect("written");
    fs::write(topology.join("notes.txt"), "not a dump").expect("written");
    let report = record(&scratch, "2.32.3", &[], "one", |_| {}).expect("the release");
    let unused = list(&report["topology"], "unused");
    assert_eq!(unused.len(), 1, "{unused:?}");
    assert!(unused[0].as_str().is_some_and(|line| line.starts_with("system-0000000000000001-00.xml: ")), "{unused:?}");
    assert_eq!(list(&report["topology"], "hosts").len(), 2, "the others count");
    for command in [&["info"][..], &["check"], &["stats", "--by", "nic"], &["finalize"]] {
        let shown = run(scratch.tool(command).arg(scratch.out())).stdout;
        let said =
            if command == ["finalize"] { "1 unusable dump of the topology" } else { "system-0000000000000001-00" };
        assert!(shown.contains(said), "{command:?}: {shown}");
    }
}

/// Rank 0 of the last communicator wrote it, which is only on one host.
#[test]
fn the_users_own_files_are_left_alone_and_read() {
    let scratch = Scratch::new();
    let (system, graphs) = (scratch.path().join("system.xml"), scratch.path().join("graphs.xml"));
    let own = |job: &mut Command| {
        job.env("NCCL_TOPO_DUMP_FILE", &system).env("NCCL_GRAPH_DUMP_FILE", &graphs);
    };
    let Some(report) = record(&scratch, "2.32.3", &[], "one", own) else { return };
    assert!(system.exists() && graphs.exists() && !scratch.out().join("topology").exists());
    let hosts = list(&report["topology"], "hosts");
    assert_eq!((hosts.len(), hosts[0]["name"].as_str()), (1, Some("nccl-host-0")), "{hosts:?}");
    let unused = || {
        fs::remove_file(scratch.out().join("traces.otf2")).expect("an archive");
        run(scratch.tool(&["finalize"]).arg(scratch.out())).with_code(0);
        let said = run(scratch.tool(&["info", "--json"]).arg(scratch.out())).with_code(0).stdout;
        let info: Value = serde_json::from_str(&said).expect("JSON");
        list(&info["completeness"], "topology_unused").iter().map(|line| line.to_string()).collect::<String>()
    };
    let own = fs::read_to_string(&system).expect("a dump");
    fs::write(&system, own.replace("busid=\"", "busid=\"1")).expect("written");
    let said = unused();
    assert!(
        said.contains("system.xml: CUDA knows none of its GPUs") || said.contains("graphs.xml: CUDA knows"),
        "{said}"
    );
    for path in [&system, &graphs] {
        let file = fs::File::options().append(true).open(path).expect("a dump");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
    }
    let said = unused();
    assert_eq!(said.matches(": older than the job").count(), 2, "{said}");
}

/// NCCL logs the bandwidths that its tuner computed, by function, algorithm and protocol, and what it then chose.
#[test]
fn the_expected_bandwidth_is_that_of_nccls_tuner() {
    let scratch = Scratch::new();
    let logs = scratch.path().join("logs");
    fs::create_dir(&logs).expect("made");
    let logged = |job: &mut Command| {
        job.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_SUBSYS", "TUNING").env("NCCL_DEBUG_FILE", logs.join("%p"));
    };
    let Some(report) = record(&scratch, "2.32.3", &[], "one,broadcast,allgather,reducescatter", logged) else { return };
    let process_files =
        fs::read_dir(&logs).expect("logs").map(|log| fs::read(log.expect("a log").path()).expect("read"));
    let said = process_files.collect::<Vec<_>>().concat();
    let said = String::from_utf8_lossy(&said);
    let (mut table, mut chosen) = (BTreeMap::new(), BTreeMap::new());
    let mut algorithms: Vec<String> = Vec::new();
    for line in said.lines().filter_map(|line| line.split_once("NCCL INFO ").map(|parts| parts.1.trim())) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match (cells[0], line.split_once(" -> Algo ")) {
            ("Algorithm", _) => algorithms = cells[1..].iter().map(|name| name.to_uppercase()).collect(),
            (_, Some((function, choice))) => {
                let words: Vec<&str> = choice.split_whitespace().collect();
                chosen
                    .insert(function.split(':').next().unwrap_or_default(), (words[0].to_owned(), words[2].to_owned()));
            }
            (function, _) => {
                for (at, (_, bandwidth)) in cells[1..].iter().filter_map(|cell| cell.split_once('/')).enumerate() {
                    let Some(algorithm) = algorithms.get(at / 3).cloned() else { break };
                    let protocol = ["LL", "LL128", "SIMPLE"][at % 3];
                    let bandwidth = bandwidth.trim().parse::<f64>().unwrap_or(0.0);
                    table.insert((function, algorithm, protocol), bandwidth);
                }
            }
        }
    }
    let mut compared = 0;
    for class in list(&report, "operations") {
        let function = class["function"].as_str().and_then(|name| name.strip_prefix("nccl")).expect("a function");
        let Some((algorithm, protocol)) = chosen.get(function) else { continue };
        let told = table[&(function, algorithm.clone(), protocol.as_str())];
        // The factors of two ranks.
        let factor = if matches!(function, "AllGather" | "ReduceScatter") { 0.5 } else { 1.0 };
        let expected = class["expected_busbw"].as_f64().expect("a model") / 1e9;
        assert!((expected / factor - told).abs() < 0.06, "{function} {algorithm} {protocol}: {expected}, told {told}");
        compared += 1;
    }
    assert!(compared >= 3, "{chosen:?}");
}
