//! Followers find and count the same damage as readers, even if it happens while the journal is followed.

use std::path::Path;

use journal::format::{FORMAT_VERSION, MAGIC, OLDEST_READ, SEGMENT_BYTES, header};
use journal::reader::{Error, Journal};

use super::super::Recording;
use super::{Followed, contents, fill, numbers, recorded};

/// One bit of each byte is flipped, or the file is truncated before the byte.
#[test]
fn a_journal_that_is_damaged_at_any_byte() {
    let (_directory, journal) = recorded();
    let intact = contents(&journal);
    let mut steps = numbers(1, 600);
    let (mut tried, mut damaged) = (0, 0);
    for entry in std::fs::read_dir(&journal).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            for changed in [&changed, &bytes[..at]] {
                std::fs::write(&path, changed).unwrap();
                let expected = contents(&journal);
                let followed = Followed::new(&journal).until_idle(&mut steps);
                let lost = followed.last.damaged_bytes;
                assert_eq!(lost, followed.problems.iter().map(|problem| problem.lost_bytes).sum::<u64>());
                assert_eq!(followed.contents(), expected, "{} byte {at}", path.display());
                damaged += usize::from(expected.records != intact.records);
                tried += 1;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(tried > 900 && damaged > 50, "{tried} bytes, {damaged} of them matter");
}

/// Replaces bytes in the headers of all segments of a file.
fn replace(path: &Path, at: usize, new: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes.chunks_mut(SEGMENT_BYTES).for_each(|segment| segment[at..][..new.len()].copy_from_slice(new));
    std::fs::write(path, bytes).unwrap();
}

/// Words of the header have other places in another format, so nothing of it can be read.
#[test]
fn a_journal_of_another_format_is_refused() {
    let (_directory, journal) = recorded();
    let is_of = |format: u32| {
        let files = std::fs::read_dir(&journal).unwrap();
        files.for_each(|file| replace(&file.unwrap().path(), 8 * header::VERSION, &format.to_le_bytes()));
    };
    let intact = contents(&journal);
    for read in OLDEST_READ..=FORMAT_VERSION {
        is_of(read);
        assert_eq!(contents(&journal), intact);
    }
    for found in [OLDEST_READ - 1, FORMAT_VERSION + 1] {
        is_of(found);
        let Err(error) = Journal::open(&journal) else { panic!("format {found} is read") };
        assert!(matches!(error, Error::OtherFormat { found: of, .. } if of == found), "{error}");
        let said = format!("journal format {found}, this version reads {OLDEST_READ} to {FORMAT_VERSION}: ");
        assert!(error.to_string().contains(&said), "{error}");
    }
}

/// A reader that believed one of these headers would lose records, or give them wrong times.
#[test]
fn a_header_that_makes_no_sense_is_reported() {
    let (_directory, journal) = recorded();
    let path = journal.join("1.0");
    let bytes = std::fs::read(&path).unwrap();
    use journal::format::header::{BYTES, COMMITTED, PROCESS, VERSION};
    for (word, byte, new) in
        [(VERSION, 4, 0), (PROCESS, 2, 9), (BYTES, 2, 0), (COMMITTED, 1, 0), (PROCESS, 0, 9), (VERSION, 6, 9)]
    {
        replace(&path, 8 * word + byte, &[new]);
        let problems = contents(&journal).problems;
        let is_named = |(of, at, reason, _): &(_, _, String, _)| (of, *at) == (&path, 0) && reason.contains("segment");
        assert!(problems.iter().any(is_named), "word {word}: {problems:?}");
        std::fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn a_file_that_is_lost() {
    let (_directory, journal) = recorded();
    assert_eq!(contents(&journal).problems, []);
    for slot in 0..3 {
        let path = journal.join(format!("{slot}.0"));
        let bytes = std::fs::read(&path).unwrap();
        for left in [None, Some(Vec::new()), Some(vec![0; bytes.len()])] {
            match left {
                Some(left) => std::fs::write(&path, left).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let found = contents(&journal);
            let problems: Vec<&Path> = found.problems.iter().map(|(path, ..)| path.as_path()).collect();
            assert_eq!(problems, [&path]);
            assert_eq!(Followed::new(&journal).until_idle(|| u64::MAX).contents(), found);
            std::fs::write(&path, &bytes).unwrap();
        }
    }
}

/// A file that is truncated or overwritten while it is followed.
#[test]
fn a_journal_that_is_damaged_while_it_is_followed() {
    let (_directory, journal) = recorded();
    let all = contents(&journal).records.values().map(Vec::len).sum::<usize>();
    let path = journal.join("1.0");
    let bytes = std::fs::read(&path).unwrap();
    let mut steps = numbers(3, 400);
    for at in (0..bytes.len()).step_by(7) {
        let mut followed = Followed::new(&journal);
        followed.poll(steps());
        let seen = followed.records.len();
        if at % 2 == 0 {
            std::fs::write(&path, &bytes[..at]).unwrap();
        } else {
            let mut changed = bytes.clone();
            changed[at..].fill(0xa5);
            std::fs::write(&path, &changed).unwrap();
        }
        let followed = followed.until_idle(&mut steps);
        assert!(followed.records.len() >= seen);
        let is_counted = !followed.problems.is_empty() || followed.last.discarded.segments > 0;
        assert!(is_counted || followed.records.len() == all, "byte {at}: {:?}", followed.last);
        std::fs::write(&path, &bytes).unwrap();
    }
}

/// A segment of another order replaces one: the rest of the first is lost, the second is read from its beginning.
#[test]
fn a_segment_that_is_replaced() {
    let mut recording = Recording::new(u64::MAX);
    fill(&mut recording.slot, 3 * SEGMENT_BYTES / 2, &mut 0);
    let (path, bytes) = (recording.file(), recording.bytes());
    let (first, second) = bytes.split_at(SEGMENT_BYTES);
    assert_eq!(second[..8], MAGIC.to_le_bytes());
    let expected = recording.read().0;
    std::fs::write(&path, first).unwrap();
    let mut followed = Followed::new(recording.directory.path());
    followed.poll(10_000);
    let read = followed.last.bytes;
    std::fs::write(&path, second).unwrap();
    let followed = followed.until_idle(|| 10_000);
    let discarded = followed.last.discarded;
    assert_eq!(discarded.segments, 1);
    assert!(discarded.bytes > SEGMENT_BYTES as u64 - read - 2000, "{discarded:?}");
    assert_eq!(followed.problems, []);
    assert_eq!(followed.records.last().map(|record| record.id), expected.last().map(|record| record.id));
}
