use std::time::Duration;

use super::values::size;
use super::*;
use journal::writer::Retention;
use nccl_events::Kind;

fn read(pairs: &[(&str, &str)]) -> Config {
    Config::from_variables(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn a_misspelt_variable_names_the_nearest() {
    let config = read(&[("NCCL_OTF2_EVENT", "full")]);
    assert_eq!(config.remarks.len(), 1);
    assert!(config.remarks[0].contains("NCCL_OTF2_EVENTS"), "{:?}", config.remarks);
    assert_eq!(config.mask, STANDARD);
}

#[test]
fn bad_values_keep_the_default_and_say_so() {
    let config = read(&[
        ("NCCL_OTF2_FINALIZE", "inlien"),
        ("NCCL_OTF2_MAX_SIZE", "lots"),
        ("NCCL_OTF2_EVENTS", "standart"),
        ("NCCL_OTF2_FINALIZE_TIMEOUT", "-3"),
    ]);
    assert_eq!(config.remarks.len(), 4, "{:?}", config.remarks);
    assert!(config.remarks.iter().any(|remark| remark.contains("nearest: inline")));
    assert!(config.remarks.iter().any(|remark| remark.contains("nearest: standard")));
    assert_eq!((config.finalize, config.max_bytes, config.mask), (Finalize::Inline, 8 << 30, STANDARD));
    assert_eq!(config.finalize_timeout, Duration::from_secs(60));
}

#[test]
fn event_sets_by_preset_name_and_number() {
    assert_eq!(event_mask("light,ProxyOp").unwrap(), STANDARD);
    assert_eq!(event_mask("standard,-proxyop").unwrap(), LIGHT);
    assert_eq!(event_mask("0x42").unwrap(), 0x42);
    assert_eq!(event_mask("KernelCh ncclProfileColl").unwrap(), 0x42);
    assert_eq!(event_mask("full").unwrap(), 0xffff);
    assert_eq!(event_mask("none").unwrap(), 0);
    // The kinds as NCCL's headers number them (v5: 0xfff is everything up to KernelLaunch).
    assert_eq!(LIGHT, 0x7000 | 0xf00 | 0x7);
    assert_eq!(STANDARD, LIGHT | 0x8);
}

#[test]
fn without_kernel_channels_there_are_no_phases() {
    let neither = FULL & !Kind::KernelCh.mask() & !Kind::KernelPhase.mask();
    assert_eq!(event_mask("full,-KernelCh").unwrap(), neither);
    assert_eq!(event_mask("full,-0x40").unwrap(), neither);
    assert_eq!(event_mask("full,-KernelPhase").unwrap(), FULL & !Kind::KernelPhase.mask());
}

#[test]
fn ncclprofile_event_mask_counts_when_ours_is_absent() {
    assert_eq!(read(&[("NCCL_PROFILE_EVENT_MASK", "2")]).mask, 2);
    assert_eq!(read(&[("NCCL_PROFILE_EVENT_MASK", "2"), ("NCCL_OTF2_EVENTS", "light")]).mask, LIGHT);
}

#[test]
fn sizes_have_suffixes() {
    assert_eq!(size("512M").unwrap(), 512 << 20);
    assert_eq!(size("2 GiB").unwrap(), 2 << 30);
    assert_eq!(size("4096").unwrap(), 4096);
    assert!(size("99999999999T").is_err());
}

#[test]
fn a_size_that_is_too_small_is_raised_and_says_so() {
    for value in ["0", "1M", "3145727"] {
        let config = read(&[("NCCL_OTF2_MAX_SIZE", value)]);
        assert_eq!(config.max_bytes, 3 << 20, "{value}");
        assert_eq!(config.remarks.len(), 1, "{:?}", config.remarks);
        let said = format!("NCCL_OTF2_MAX_SIZE={value}: less than 3M");
        assert!(config.remarks[0].starts_with(&said), "{:?}", config.remarks);
    }
    let config = read(&[("NCCL_OTF2_MAX_SIZE", "3M")]);
    assert_eq!((config.max_bytes, config.remarks.len()), (3 << 20, 0));
}

#[test]
fn directories_expand() {
    let values = PathValues { host: "n1".into(), process_id: 7, job: Some("a/b".into()), rank: None };
    assert_eq!(expand("/x/%j/%h-%p-%r%%%q", &values), "/x/a_b/n1-7-unknown%%q");
}

#[test]
fn how_the_archive_is_written_is_read_and_a_bad_word_keeps_the_default() {
    let config = read(&[
        ("NCCL_OTF2_LEVEL", "Light"),
        ("NCCL_OTF2_METRICS", "bandwidth"),
        ("NCCL_OTF2_COMM_LOCATIONS", "cpu"),
        ("NCCL_OTF2_COLLECTIVES", "nonblokcing"),
    ]);
    let named = config.archive.named().map(|(_, value)| value);
    assert_eq!(named, ["light", "bandwidth", "cpu", "blocking"]);
    assert_eq!(config.remarks.len(), 1, "{:?}", config.remarks);
    assert!(config.remarks[0].contains("nearest: nonblocking"));
}

#[test]
fn a_flight_has_a_size_or_a_time() {
    let kept = |pairs: &[(&str, &str)]| {
        let config = read(pairs);
        assert_eq!(config.remarks, Vec::<String>::new());
        config.flight_retention()
    };
    assert_eq!(kept(&[("NCCL_OTF2_FLIGHT_SIZE", "9M")]), None, "no flight");
    let flight = ("NCCL_OTF2_MODE", "flight");
    let of = |bytes, seconds: Option<u64>| {
        let time = seconds.map(Duration::from_secs);
        Some(Retention { bytes, time })
    };
    assert_eq!(kept(&[flight]), of(64 << 20, None));
    let size = ("NCCL_OTF2_FLIGHT_SIZE", "1G");
    assert_eq!(kept(&[flight, size]), of(1 << 30, None));
    let time = ("NCCL_OTF2_FLIGHT_SECONDS", "90");
    assert_eq!(kept(&[flight, time]), of(8 << 30, Some(90)));
    assert_eq!(kept(&[flight, size, time]), of(1 << 30, Some(90)));
    let config = read(&[flight, ("NCCL_OTF2_FLIGHT_SIZE", "1M"), ("NCCL_OTF2_MAX_SIZE", "4M")]);
    assert_eq!((config.remarks.len(), config.flight_retention()), (1, of(8 << 20, None)));
    // Room for a maintenance thread that is late.
    assert_eq!(config.limit_bytes(), 16 << 20);
}

#[test]
fn signals_are_those_that_programs_may_use() {
    let signal = |value: &str| read(&[("NCCL_OTF2_DUMP_SIGNAL", value)]).dump_signal;
    assert_eq!(signal("none"), None);
    assert_eq!(signal("SIGUSR1"), Some(libc::SIGUSR1));
    assert_eq!(signal("usr2"), Some(libc::SIGUSR2));
    assert_eq!(signal("40"), Some(40));
    let config = read(&[("NCCL_OTF2_DUMP_SIGNAL", "KILL")]);
    assert_eq!(config.remarks.len(), 1);
    assert_eq!(config.dump_signal, Some(libc::SIGUSR2));
}
