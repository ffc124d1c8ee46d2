//! A plugin behind this one is called with the same as alone, handle by handle.

use whole_plugin::built;
use whole_plugin::kinds::NEWEST;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::rig::{Play, alone, behind, chained, copy, everything, finish, log, only, same};

/// Also kinds that the table does not have: scripts start them as NCCL's RAS client can.
const EVERYTHING: &str = "7fffffff";

/// What to play through a table: up to v4 a recorded stream, which has the kinds of these tables.
fn plays(table: u32, script: &str) -> Vec<Play<'_>> {
    if table <= 4 { vec![Play::Stream] } else { vec![Play::Stream, Play::Script(script)] }
}

#[test]
fn through_every_table_a_plugin_is_called_as_alone() {
    let script = everything();
    for table in 1..=NEWEST {
        for what in plays(table, &script) {
            // What this plugin records is another matter: of `light` it refuses most.
            for events in ["full", "light"] {
                let scratch = Scratch::new();
                let file = copy(&scratch, "one");
                let mut command = chained(&scratch, what, table, file.to_str().expect("a path"));
                command.env("ECHO_one_OUT", scratch.path().join("log")).env("NCCL_OTF2_EVENTS", events);
                finish(&scratch, command.env("ECHO_one_MASK", EVERYTHING));
                let expected = alone(what, table, &[("MASK", EVERYTHING)]);
                same(&log(&scratch, "log"), &expected, &format!("v{table} {events}"));
                let archive = scratch.sound_archive();
                let properties = archive.properties();
                let plugins = format!("{} (v{table})", file.display());
                assert_eq!(properties["NCCL::CHAIN::PLUGINS"], plugins);
                assert!(!properties.keys().any(|name| name.contains("NOT_HANDED_OVER")), "{properties:#?}");
            }
        }
    }
}

#[test]
fn what_is_recorded_does_not_depend_on_the_plugins_behind() {
    let script = everything();
    for events in ["light", "standard", "full"] {
        let counts = |chain: bool| {
            let scratch = Scratch::new();
            let file = if chain { copy(&scratch, "one").display().to_string() } else { String::new() };
            let mut command = chained(&scratch, Play::Script(&script), NEWEST, &file);
            finish(&scratch, command.env("NCCL_OTF2_EVENTS", events));
            let mut properties = scratch.sound_archive().properties();
            properties.retain(|name, _| name.ends_with("::SEEN") || name.ends_with("::STOPS"));
            properties
        };
        let (with, without) = (counts(true), counts(false));
        // NCCL itself starts no event that nobody asked for: the script does.
        let asked: Vec<_> = with.iter().filter(|(_, count)| *count != "0").collect();
        assert!(asked.len() > 6, "{with:#?}");
        for (name, count) in asked {
            assert_eq!(without.get(name), Some(count), "{events}: {name}");
        }
    }
}

#[test]
fn each_of_two_plugins_gets_what_it_asks_for() {
    let script = everything();
    for (table, one, two) in [(NEWEST, "0x8", "0x801"), (5, "0x10", "0x2"), (4, "0x40", "0x24"), (2, "0x3f", "0x8")] {
        for what in plays(table, &script).into_iter().take(1) {
            let scratch = Scratch::new();
            let chain = format!("{},{}", copy(&scratch, "one").display(), copy(&scratch, "two").display());
            let mut command = chained(&scratch, what, table, &chain);
            for (name, mask) in [("one", one), ("two", two)] {
                command.env(format!("ECHO_{name}_OUT"), scratch.path().join(name));
                command.env(format!("ECHO_{name}_MASK"), mask);
            }
            finish(&scratch, &mut command);
            for (name, mask) in [("one", one), ("two", two)] {
                let expected = alone(what, table, &[("MASK", mask)]);
                same(&log(&scratch, name), &expected, &format!("v{table} {mask}"));
            }
            let _archive = scratch.sound_archive();
        }
    }
}

#[test]
fn null_handles_stay_null() {
    for table in [4, 5] {
        for null in ["0x2", "0x8"] {
            let scratch = Scratch::new();
            let chain = format!("{},{}", copy(&scratch, "one").display(), copy(&scratch, "two").display());
            let mut command = chained(&scratch, Play::Stream, table, &chain);
            command.env("ECHO_one_OUT", scratch.path().join("one")).env("ECHO_one_NULL", null);
            command.env("ECHO_two_OUT", scratch.path().join("two"));
            finish(&scratch, &mut command);
            let expected = alone(Play::Stream, table, &[("NULL", null)]);
            same(&log(&scratch, "one"), &expected, &format!("v{table} {null}"));
            same(&log(&scratch, "two"), &alone(Play::Stream, table, &[]), "the other plugin");
        }
    }
}

#[test]
fn an_older_plugin_is_called_by_its_own_table() {
    for (called, version) in [(NEWEST, 6), (NEWEST, 5), (NEWEST, 4), (6, 5), (5, 4)] {
        let scratch = Scratch::new();
        let file = only(&scratch, version);
        let mut command = chained(&scratch, Play::Stream, called, file.to_str().expect("a path"));
        command.env("ONLY_PLUGIN", built::echo_plugin()).env("ECHO_OUT", scratch.path().join("log"));
        finish(&scratch, &mut command);
        let expected = alone(Play::Stream, version, &[]);
        same(&log(&scratch, "log"), &expected, &format!("v{version} under v{called}"));
    }
}

#[test]
fn plugins_work_where_nothing_is_recorded() {
    let script = everything();
    let scratch = Scratch::new();
    let file = copy(&scratch, "one");
    let mut command = chained(&scratch, Play::Script(&script), NEWEST, file.to_str().expect("a path"));
    command.env("ECHO_OUT", scratch.path().join("log")).env("NCCL_OTF2_MODE", "off");
    let _ended = run(&mut command).with_code(0);
    same(&log(&scratch, "log"), &alone(Play::Script(&script), NEWEST, &[]), "off");
    assert!(!scratch.out().exists());
}

/// A plugin writes its mask whenever it likes: NCCL calls for more soon, and the plugin gets less at once.
#[test]
fn a_plugin_changes_its_mask_while_the_job_runs() {
    let all = "init c ranks=1 rank=0
        start a CollApi ctx=c func=AllReduce
        stop a
        sleep 1s
        expect-mask WIDER
        start o ProxyOp ctx=c
        start s ProxyStep ctx=c parent=o
        start w ProxyCtrl ctx=c
        stop w
        stop s
        start b CollApi ctx=c func=AllReduce
        stop b
        stop o
        finalize c";
    // This plugin asks for GroupApi, CollApi, P2pApi and KernelLaunch; no mask shrinks.
    for (mode, wider) in [("trace", "0xf30"), ("off", "0x230")] {
        let scratch = Scratch::new();
        let file = copy(&scratch, "one");
        let script = all.replace("WIDER", wider);
        let mut command = chained(&scratch, Play::Script(&script), NEWEST, file.to_str().expect("a path"));
        command.env("NCCL_OTF2_MODE", mode).env("NCCL_OTF2_EVENTS", "GroupApi,CollApi,P2pApi,KernelLaunch");
        command.env("ECHO_OUT", scratch.path().join("log")).env("ECHO_MASK", "0x200").env("ECHO_NEXT", "0x30,0x0");
        let _ended = run(&mut command).with_code(0);
        let text = log(&scratch, "log");
        let calls = text.lines().map(|line| line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" "));
        let starts: Vec<String> = calls.filter(|call| call.starts_with("start")).collect();
        assert_eq!(starts, ["start 0x200", "start 0x8", "start 0x10", "start 0x20"], "{mode}: {text}");
        assert_eq!(text.matches(" stop ").count(), 4, "{mode}: what it has a handle of ends\n{text}");
    }
}

/// Many threads at once: every handle that a plugin sees again is one that it gave, for its own communicator.
#[test]
fn handles_of_many_threads_do_not_mix() {
    let script = "
        parallel 8 {
        init c%t ranks=8 rank=%t id=%t
        repeat 2000 {
        start g%t GroupApi ctx=c%t
        start a%t CollApi ctx=c%t parent=g%t func=AllReduce count=1 datatype=ncclInt8
        start x%t Coll ctx=c%t parent=a%t group=g%t func=AllReduce count=1 datatype=ncclInt8
        stop x%t
        start p%t ProxyOp ctx=c%t parent=x%t
        stop a%t
        stop g%t
        state p%t ProxyOpInProgress
        stop p%t
        }
        finalize c%t
        }
    ";
    let scratch = Scratch::new();
    let text = behind(&scratch, Play::Script(script), NEWEST, &[]);
    let mut open = std::collections::BTreeMap::new();
    let (mut starts, mut stops) = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[1] {
            "start" => {
                let parent = words[4].trim_start_matches("parent=");
                let (kind, context) = (words[2], words[3]);
                let of = |parent: &str| open.get(parent).map(|(_, context)| *context);
                assert!(kind == "0x100" || of(parent) == Some(context), "{line}");
                open.insert(words[words.len() - 1], (kind, context));
                starts += 1;
            }
            "state" => assert_eq!(open[words[2]].0, "0x8", "{line}"),
            "stop" => {
                assert!(open.contains_key(words[2]), "{line}");
                stops += 1;
            }
            _ => {}
        }
    }
    assert_eq!((starts, stops), (8 * 2000 * 4, 8 * 2000 * 4));
    let _archive = scratch.sound_archive();
}
