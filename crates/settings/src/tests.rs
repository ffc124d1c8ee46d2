use std::time::Duration;

use super::*;
use crate::config::size;
use journal::part::environment::Level;
use journal::writer::Retention;
use nccl_events::Kind;

fn read(pairs: &[(&str, &str)]) -> Config {
    Config::from_variables(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn what_makes_no_sense_keeps_the_default_and_says_so() {
    let remarks = [
        ("NCCL_OTF2_DUMP_SIGNAL", "KILL", ""),
        ("NCCL_OTF2_EVENT", "full", "NCCL_OTF2_EVENTS"),
        ("NCCL_OTF2_EVENTS", "standart", "nearest: standard"),
        ("NCCL_OTF2_FINALIZE", "inlien", "nearest: inline"),
        ("NCCL_OTF2_FINALIZE_TIMEOUT", "-3", ""),
        ("NCCL_OTF2_GPU", "yes", "events; the default is used"),
        ("NCCL_OTF2_LEVEL", "lihgt", "nearest: light"),
        ("NCCL_OTF2_MAX_SIZE", "lots", ""),
    ];
    let config = read(&remarks.map(|(name, value, _)| (name, value)));
    assert_eq!(config.remarks.len(), remarks.len(), "{:?}", config.remarks);
    for (said, (name, _, remark)) in config.remarks.iter().zip(remarks) {
        assert!(said.starts_with(name) && said.contains(remark), "{said}");
    }
    let config = Config { remarks: Vec::new(), ..config };
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
}

#[test]
fn event_sets_by_preset_name_and_number() {
    // The kinds as NCCL's headers number them (in v5, 0xfff is everything up to KernelLaunch).
    assert_eq!((LIGHT, STANDARD), (0x7000 | 0xf00 | 0x7, LIGHT | 0x8));
    let neither = FULL & !Kind::KernelCh.mask() & !Kind::KernelPhase.mask();
    for (text, mask) in [
        ("light,ProxyOp", STANDARD),
        ("standard,-proxyop", LIGHT),
        ("0x42", 0x42),
        ("KernelCh ncclProfileColl", 0x42),
        ("full", 0xffff),
        ("none", 0),
        // Without channels there are no phases.
        ("full,-KernelCh", neither),
        ("full,-0x40", neither),
        ("full,-KernelPhase", FULL & !Kind::KernelPhase.mask()),
    ] {
        assert_eq!(event_mask(text), Ok(mask), "{text}");
    }
}

#[test]
fn ncclprofile_event_mask_counts_when_ours_is_absent() {
    assert_eq!(read(&[("NCCL_PROFILE_EVENT_MASK", "2")]).mask, 2);
    assert_eq!(read(&[("NCCL_PROFILE_EVENT_MASK", "2"), ("NCCL_OTF2_EVENTS", "light")]).mask, LIGHT);
}

#[test]
fn sizes_have_suffixes() {
    let sizes = ["512M", "2 GiB", "4096", "99999999999T"].map(|text| size(text).ok());
    assert_eq!(sizes, [Some(512 << 20), Some(2 << 30), Some(4096), None]);
}

#[test]
fn a_size_that_is_too_small_is_raised_and_says_so() {
    for value in ["0", "1M", "3145727"] {
        let config = read(&[("NCCL_OTF2_MAX_SIZE", value)]);
        assert_eq!(config.max_bytes, 3 << 20, "{value}");
        let said = format!("NCCL_OTF2_MAX_SIZE={value}: less than 3M");
        assert!(matches!(&config.remarks[..], [remark] if remark.starts_with(&said)), "{:?}", config.remarks);
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
fn how_the_archive_is_written_is_read() {
    assert_eq!(read(&[("NCCL_OTF2_LEVEL", "Light")]).level, Level::Light);
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
    let (size, time) = (("NCCL_OTF2_FLIGHT_SIZE", "1G"), ("NCCL_OTF2_FLIGHT_SECONDS", "90"));
    let of = |bytes, seconds: Option<u64>| Some(Retention { bytes, time: seconds.map(Duration::from_secs) });
    assert_eq!(kept(&[flight]), of(64 << 20, None));
    assert_eq!(kept(&[flight, size]), of(1 << 30, None));
    assert_eq!(kept(&[flight, time]), of(8 << 30, Some(90)));
    assert_eq!(kept(&[flight, size, time]), of(1 << 30, Some(90)));
    let config = read(&[flight, ("NCCL_OTF2_FLIGHT_SIZE", "1M"), ("NCCL_OTF2_MAX_SIZE", "4M")]);
    assert_eq!((config.remarks.len(), config.flight_retention()), (1, of(8 << 20, None)));
    // Twice the limit: room for a late maintenance thread.
    assert_eq!(config.limit_bytes(), 16 << 20);
}

#[test]
fn signals_are_those_that_programs_may_use() {
    let signal = |value: &str| read(&[("NCCL_OTF2_DUMP_SIGNAL", value)]).dump_signal;
    assert_eq!(signal("none"), None);
    assert_eq!(signal("SIGUSR1"), Some(libc::SIGUSR1));
    assert_eq!(signal("usr2"), Some(libc::SIGUSR2));
    assert_eq!(signal("40"), Some(40));
}
