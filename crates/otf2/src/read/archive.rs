//! An archive to read: its anchor's contents, libotf2's reader of it, and its definitions as records. Before libotf2
//! reads an anchor, an event file or a definition file, it is checked to be complete.

use std::ffi::{c_char, c_void};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::ptr;
use std::ptr::NonNull;

use crate::definition::Definition;
use crate::error;
use crate::error::{Error, Result, c_string, check, io, refused, text};
use crate::event::{
    BIG_ENDIAN, Checksums, END, END_OF_CHUNK, HEADER_BYTES, HEADER_MARK, LITTLE_ENDIAN, PROPERTY, check_presence,
};
use crate::records::{ClockProperties, Definitions, LocationGroup, ParadigmRecord};
use crate::vocabulary::LocationRef;
use otf2_sys as sys;
use regular_files::MOST_MANIFEST_BYTES;

/// An open reader. Dropping it closes it, together with everything obtained from it.
pub(super) struct Reader {
    reader: NonNull<sys::OTF2_Reader>,
}

// SAFETY: the reader is reachable only through this value, libotf2 keeps no readers in global or thread-local
// state, and all methods take `&mut self`.
unsafe impl Send for Reader {}

impl Reader {
    /// Opens an archive whose anchor was checked.
    fn open(anchor: &Path) -> Result<Self> {
        let operation = || format!("open the archive {}", anchor.display());
        error::listen();
        let path = c_string(anchor.as_os_str().as_bytes(), operation)?;
        // SAFETY: a NUL-terminated string.
        let reader = unsafe { sys::OTF2_Reader_Open(path.as_ptr()) };
        let damaged = || error::damaged(anchor, "cannot be read", &error::null(operation()));
        let reader = NonNull::new(reader).ok_or_else(damaged)?;
        let opened = Self { reader };
        // SAFETY: the reader is open and has no collective callbacks yet.
        let code = unsafe { sys::OTF2_Reader_SetSerialCollectiveCallbacks(reader.as_ptr()) };
        check(code, operation)?;
        Ok(opened)
    }

    pub(super) fn as_ptr(&mut self) -> *mut sys::OTF2_Reader {
        self.reader.as_ptr()
    }

    /// Calls a function that allocates a string for its caller.
    pub(super) fn string(
        &mut self,
        what: &str,
        get: unsafe extern "C" fn(*mut sys::OTF2_Reader, *mut *mut c_char) -> sys::OTF2_ErrorCode,
    ) -> Result<String> {
        let mut text = ptr::null_mut();
        // SAFETY: all functions passed here take an open reader and a pointer to store a string in.
        let code = unsafe { get(self.reader.as_ptr(), &raw mut text) };
        let text = Allocated::new(text);
        check(code, || format!("read the {what}"))?;
        Ok(text.map(|text| text.to_string()).unwrap_or_default())
    }

    pub(super) fn properties(&mut self) -> Result<Vec<(String, String)>> {
        let operation = || "read the properties".to_owned();
        let (mut count, mut names) = (0_u32, ptr::null_mut());
        // SAFETY: the reader is open, and both pointers refer to local variables.
        let code = unsafe { sys::OTF2_Reader_GetPropertyNames(self.reader.as_ptr(), &raw mut count, &raw mut names) };
        // One allocation holds the array and the names.
        let array = Allocated::new(names.cast());
        check(code, operation)?;
        let mut properties = Vec::new();
        if array.is_none() {
            return Ok(properties);
        }
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: libotf2 returned an array of `count` elements.
            let place = unsafe { names.add(index) };
            // SAFETY: as above; the array is alive.
            let name = unsafe { place.read() };
            let mut value = ptr::null_mut();
            // SAFETY: the reader is open, `name` comes from libotf2, and `value` is a local variable.
            let code = unsafe { sys::OTF2_Reader_GetProperty(self.reader.as_ptr(), name, &raw mut value) };
            let value = Allocated::new(value);
            check(code, operation)?;
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            properties.push((text(name), value));
        }
        properties.sort();
        Ok(properties)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: open until here. Ignoring the result is fine: closing files that were only read loses nothing.
        unsafe { sys::OTF2_Reader_Close(self.reader.as_ptr()) };
    }
}

/// A string that libotf2 allocated with C's `malloc`.
struct Allocated(NonNull<c_char>);

unsafe extern "C" {
    fn free(memory: *mut c_void);
}

impl Allocated {
    fn new(text: *mut c_char) -> Option<Self> {
        NonNull::new(text).map(Self)
    }
}

impl std::fmt::Display for Allocated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self.0.as_ptr()))
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: allocated by libotf2 with `malloc` for the caller to free, and freed only here.
        unsafe { free(self.0.as_ptr().cast()) };
    }
}

/// Copies an array that libotf2 passed to a callback.
///
/// # Safety
///
/// `values` is NULL or points to `length` values that are alive.
pub(super) unsafe fn array<T: Copy>(values: *const T, length: usize) -> Vec<T> {
    if values.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: not NULL; the caller guarantees the rest.
    unsafe { std::slice::from_raw_parts(values, length) }.to_vec()
}

/// A table of callbacks, which a reader of libotf2 copies.
macro_rules! callback_table {
    ($name:ident of $type:ident: $new:ident, $delete:ident) => {
        pub(super) struct $name(std::ptr::NonNull<sys::$type>);

        impl $name {
            fn empty() -> Result<Self> {
                crate::error::forget();
                // SAFETY: takes no arguments, returns a table or NULL.
                let table = std::ptr::NonNull::new(unsafe { sys::$new() });
                table.map(Self).ok_or_else(|| crate::error::null("make a table of callbacks".to_owned()))
            }

            pub(super) fn as_ptr(&self) -> *mut sys::$type {
                self.0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: made by libotf2 and deleted only here; readers have their own copies.
                unsafe { sys::$delete(self.0.as_ptr()) };
            }
        }
    };
}

pub(super) use callback_table;

/// Device, inode, length and time of the last change of a file.
type FileIdentity = (u64, u64, u64, (i64, i64));

fn identity(path: &Path) -> Result<FileIdentity> {
    let file = path.metadata().map_err(|source| io("open the archive", path, source))?;
    Ok((file.dev(), file.ino(), file.len(), (file.ctime(), file.ctime_nsec())))
}

/// The extensions of the files of an archive, as libotf2 names them.
pub const FILE_EXTENSIONS: [&str; 5] = ["otf2", "def", "evt", "snap", "marker"];

/// An archive to read.
#[derive(Debug, Clone)]
pub struct Archive {
    anchor: PathBuf,
    /// The anchor file that was checked.
    checked: FileIdentity,
    creator: String,
    machine_name: String,
    description: String,
    version: (u8, u8, u8),
    event_chunk_bytes: u64,
    definitions_chunk_bytes: u64,
    number_of_locations: u64,
    number_of_global_definitions: u64,
    number_of_snapshots: u32,
    number_of_thumbnails: u32,
    properties: Vec<(String, String)>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $method:ident(&$this:ident) -> $type:ty { $value:expr })*) => {$(
        $(#[$doc])*
        pub fn $method(&$this) -> $type {
            $value
        }
    )*};
}

impl Archive {
    /// Opens the archive that this anchor file (`….otf2`) describes.
    pub fn open(anchor: &Path) -> Result<Self> {
        if anchor.extension().is_none_or(|extension| extension != "otf2") {
            let operation = format!("open the archive {}", anchor.display());
            return Err(refused(operation, "the anchor file of an archive ends in .otf2"));
        }
        let checked = identity(anchor)?;
        check_anchor(anchor)?;
        let mut reader = Reader::open(anchor)?;
        let operation = || format!("read the anchor {}", anchor.display());
        let pointer = reader.as_ptr();
        /// Calls a reader function that stores numbers.
        macro_rules! get {
            ($get:ident($($number:expr),*)) => {{
                // SAFETY: the reader is open, and the pointers refer to local variables.
                let code = unsafe { sys::$get(pointer, $(&raw mut $number),*) };
                check(code, operation)?;
            }};
        }
        let mut version = (0, 0, 0);
        get!(OTF2_Reader_GetVersion(version.0, version.1, version.2));
        let (mut event_chunk_bytes, mut definitions_chunk_bytes) = (0, 0);
        get!(OTF2_Reader_GetChunkSize(event_chunk_bytes, definitions_chunk_bytes));
        let (mut number_of_locations, mut number_of_global_definitions) = (0, 0);
        get!(OTF2_Reader_GetNumberOfLocations(number_of_locations));
        get!(OTF2_Reader_GetNumberOfGlobalDefinitions(number_of_global_definitions));
        let (mut number_of_snapshots, mut number_of_thumbnails) = (0, 0);
        get!(OTF2_Reader_GetNumberOfSnapshots(number_of_snapshots));
        get!(OTF2_Reader_GetNumberOfThumbnails(number_of_thumbnails));
        Ok(Self {
            anchor: anchor.to_owned(),
            checked,
            creator: reader.string("creator", sys::OTF2_Reader_GetCreator)?,
            machine_name: reader.string("machine name", sys::OTF2_Reader_GetMachineName)?,
            description: reader.string("description", sys::OTF2_Reader_GetDescription)?,
            version,
            event_chunk_bytes,
            definitions_chunk_bytes,
            number_of_locations,
            number_of_global_definitions,
            number_of_snapshots,
            number_of_thumbnails,
            properties: reader.properties()?,
        })
    }

    /// A reader of its own. The anchor of a large job takes as long to check as a small location to read.
    pub(super) fn reader(&self) -> Result<Reader> {
        if identity(&self.anchor)? != self.checked {
            check_anchor(&self.anchor)?;
        }
        Reader::open(&self.anchor)
    }

    getters! {
        /// The anchor file.
        anchor_file(&self) -> &Path { &self.anchor }
        /// The program that wrote the archive.
        creator(&self) -> &str { &self.creator }
        /// The machine on which the trace was recorded.
        machine_name(&self) -> &str { &self.machine_name }
        /// A description of the trace, for users.
        description(&self) -> &str { &self.description }
        /// The version of libotf2 that wrote the archive.
        version(&self) -> (u8, u8, u8) { self.version }
        /// The size of an event chunk in bytes, the same in all event files of the archive.
        event_chunk_bytes(&self) -> u64 { self.event_chunk_bytes }
        /// The size of a definitions chunk in bytes.
        definitions_chunk_bytes(&self) -> u64 { self.definitions_chunk_bytes }
        /// The anchor's number of locations.
        number_of_locations(&self) -> u64 { self.number_of_locations }
        /// The anchor's number of global definitions.
        number_of_global_definitions(&self) -> u64 { self.number_of_global_definitions }
        /// The anchor's number of snapshots: states of all locations at one time.
        number_of_snapshots(&self) -> u32 { self.number_of_snapshots }
        /// The anchor's number of thumbnails: small pictures of the trace.
        number_of_thumbnails(&self) -> u32 { self.number_of_thumbnails }
        /// The trace file properties, sorted by name. OTF2 stores the names in upper case.
        properties(&self) -> &[(String, String)] { &self.properties }
    }

    /// The value of a trace file property; ignores case.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(present, _)| present.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The path of a location's event file.
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.anchor.with_extension("").join(format!("{}.evt", location.get()))
    }

    /// Whether a location has local definitions; an error if their file is incomplete.
    pub fn has_local_definitions(&self, location: LocationRef) -> Result<bool> {
        let file = self.definition_file(location);
        match file.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            _ => check_definition_file(&file, MOST_MANIFEST_BYTES, self.definitions_chunk_bytes).map(|()| true),
        }
    }

    /// Checks that no definitions are missing, and that they match the archive's checksums if it has any.
    pub fn check_definitions(&self, definitions: &Definitions) -> Result<()> {
        let locations = definitions.locations.iter();
        let with_events =
            locations.clone().filter(|(_, location)| location.number_of_events > 0).map(|(location, _)| location.get());
        check_presence(&self.anchor, with_events)?;
        match self.property(PROPERTY) {
            Some(written) => {
                let found = Checksums::read(&self.anchor, locations.clone().map(|(location, _)| location.get()))?;
                found.compare(&self.anchor, written).map_err(|differs| {
                    // The checksum covers all local definitions: name a file that is broken by itself, if there is one.
                    let mut broken = locations.filter_map(|(location, _)| self.has_local_definitions(*location).err());
                    broken.next().unwrap_or(differs)
                })
            }
            None => Ok(()),
        }
    }

    /// The path of a location's local definitions.
    pub fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.anchor.with_extension("").join(format!("{}.def", location.get()))
    }
}

// libotf2 trusts an anchor's count of properties when it allocates and reads, so the anchor is checked before.

/// OTF2 reserves 256 KiB for properties; other programs may use larger chunks.
const MOST_ANCHOR_BYTES: u64 = 16 << 20;
const MAGIC: &[u8] = b"OTF2\0";
/// Format of the trace, version, chunk sizes, substrate, compression, numbers of locations and definitions.
const FIXED_BYTES: usize = 38;
const TEXTS: usize = 3;

/// Checks that an anchor contains all the strings that it counts.
pub(super) fn check_anchor(path: &Path) -> Result<()> {
    let bytes = regular_files::read(path, MOST_ANCHOR_BYTES).map_err(|source| io("open the archive", path, source))?;
    let reason = "is not the anchor of an archive, or was truncated".to_owned();
    check_anchor_bytes(&bytes).ok_or_else(|| Error::Damaged { path: path.to_owned(), reason })
}

/// Skips all strings; `None` if the anchor ends too early.
fn check_anchor_bytes(bytes: &[u8]) -> Option<()> {
    let (&[HEADER_MARK, order], rest) = bytes.split_first_chunk()? else { return None };
    let number = match order {
        LITTLE_ENDIAN => u32::from_le_bytes,
        BIG_ENDIAN => u32::from_be_bytes,
        _ => return None,
    };
    let (format, rest) = rest.strip_prefix(MAGIC)?.split_first()?;
    let rest = after_texts(rest.get(FIXED_BYTES..)?, TEXTS)?;
    // Properties were added in format 2.
    if *format > 1 {
        let (properties, rest) = rest.split_first_chunk()?;
        after_texts(rest, usize::try_from(number(*properties)).ok()?.checked_mul(2)?)?;
    }
    Some(())
}

/// What follows the given number of NUL-terminated strings.
fn after_texts(mut bytes: &[u8], texts: usize) -> Option<&[u8]> {
    for _text in 0..texts {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        bytes = bytes.get(end + 1..)?;
    }
    Some(bytes)
}

/// Appends to a list of a record in a map; `None` if the map lacks the record.
macro_rules! push {
    ($self:ident.$map:ident[$of:expr].$list:ident, $value:expr) => {
        $self.$map.get_mut(&$of).map(|of| of.$list.push($value))
    };
}

impl Definitions {
    pub(super) fn add(&mut self, definition: Definition) {
        let Some(definition) = self.add_record(definition) else {
            return;
        };
        let kind = definition.kind();
        let kept = match definition {
            Definition::ParadigmProperty { paradigm, property, value } => {
                push!(self.paradigms[paradigm.into()].properties, (property.into(), value))
            }
            Definition::SystemTreeNodeDomain { of, domain } => {
                push!(self.system_tree_nodes[of].domains, domain.into())
            }
            Definition::SystemTreeNodeProperty { of, name, value } => {
                push!(self.system_tree_nodes[of].properties, (name, value))
            }
            Definition::LocationGroupProperty { of, name, value } => {
                push!(self.location_groups[of].properties, (name, value))
            }
            Definition::LocationProperty { of, name, value } => {
                push!(self.locations[of].properties, (name, value))
            }
            other => self.add_whole(other),
        };
        // A property of an undefined record is counted as well.
        if kept.is_none() {
            *self.others.entry(kind).or_default() += 1;
        }
    }

    /// Stores a definition that does not depend on another. Returns `None` for all other definitions.
    fn add_whole(&mut self, definition: Definition) -> Option<()> {
        match definition {
            Definition::ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp } => {
                let clock = ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp };
                self.clock = Some(clock);
            }
            Definition::String { this, text } => {
                self.strings.insert(this, String::from_utf8_lossy(&text).into_owned());
            }
            Definition::LocationGroup { this, name, group_type, parent, creator } => {
                let (group_type, system_tree_parent) = (group_type.into(), parent);
                let group = LocationGroup { name, group_type, system_tree_parent, creator, properties: Vec::new() };
                self.location_groups.insert(this, group);
            }
            Definition::Paradigm { paradigm, name, class } => {
                let record = ParadigmRecord { name, class: class.into(), properties: Vec::new() };
                self.paradigms.insert(paradigm.into(), record);
            }
            _ => return None,
        }
        Some(())
    }
}

// libotf2 never finishes reading a truncated event file, so its end is checked before.

const EVENT_HEADER_BYTES: u64 = HEADER_BYTES as u64;
const END_BYTES: u64 = END.len() as u64;

/// Checks an event file's chunks and its end, and returns its number of events. Reads a few bytes of each chunk.
pub fn check_event_file(path: &Path, chunk_bytes: u64) -> Result<u64> {
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let read = |source| io("read the event file", path, source);
    let file = regular_files::open(path, u64::MAX).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    let cut_short = || damaged("was truncated, or its writer did not close it: it has no end".to_owned());
    if size < EVENT_HEADER_BYTES + END_BYTES || chunk_bytes < EVENT_HEADER_BYTES {
        return Err(cut_short());
    }
    let mut end = [0; 2];
    file.read_exact_at(&mut end, size - END_BYTES).map_err(read)?;
    if end != END {
        return Err(cut_short());
    }
    // libotf2 crashes on the rest of an end that was written beyond a full chunk.
    let rest = size % chunk_bytes;
    if rest != 0 && rest < EVENT_HEADER_BYTES + END_BYTES {
        let reason = format!("has {rest} bytes after its last chunk that are not a chunk");
        return Err(damaged(reason));
    }
    let mut events = 0;
    let mut start = 0;
    while start + EVENT_HEADER_BYTES <= size {
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, start).map_err(read)?;
        let [mark, endianness, numbers @ ..] = header;
        let (first, last) = (numbers.first_chunk(), numbers.last_chunk());
        let [first, last] = [first, last].map(|number| number.copied().unwrap_or_default());
        let (first, last) = match [mark, endianness] {
            [HEADER_MARK, LITTLE_ENDIAN] => (u64::from_le_bytes(first), u64::from_le_bytes(last)),
            [HEADER_MARK, BIG_ENDIAN] => (u64::from_be_bytes(first), u64::from_be_bytes(last)),
            _ => {
                let reason = format!(
                    "has no chunk at byte {start}: it is damaged, or its chunks are not of {chunk_bytes} bytes"
                );
                return Err(damaged(reason));
            }
        };
        if first != events + 1 || last < events {
            let reason = format!(
                "has a chunk at byte {start} with events {first} to {last} after event {events}: \
                 parts of it are missing"
            );
            return Err(damaged(reason));
        }
        events = last;
        start += chunk_bytes;
    }
    Ok(events)
}

// libotf2's messages about a truncated definition file do not say that it is truncated. After a damaged record libotf2
// may take old contents of its memory for the next chunk, without end. So the file's chunks and records are checked
// before.

/// The length of a record with more bytes is in the next eight.
const LONG: u8 = 0xff;

/// Checks a definition file of at most `most_bytes`: its chunks, their records, and its end.
pub(super) fn check_definition_file(path: &Path, most_bytes: u64, chunk_bytes: u64) -> Result<()> {
    let bytes = regular_files::read(path, most_bytes).map_err(|source| io("read the definitions", path, source))?;
    let damaged = |reason: String| Err(Error::Damaged { path: path.to_owned(), reason });
    if bytes.len() < HEADER_BYTES + END.len() || !bytes.ends_with(&END) {
        return damaged(format!("was truncated: it has no end after {} bytes", bytes.len()));
    }
    let mut chunks = bytes.chunks(usize::try_from(chunk_bytes).unwrap_or(usize::MAX).max(1)).peekable();
    let mut number = 0;
    while let Some(chunk) = chunks.next() {
        number += 1;
        if check_chunk(chunk, chunks.peek().is_none()).is_none() {
            return damaged(format!("has a damaged definition in its chunk {number}"));
        }
    }
    Ok(())
}

/// Skips all records; `None` if one goes beyond the chunk, or another end follows than the chunk is to have.
fn check_chunk(chunk: &[u8], is_last: bool) -> Option<()> {
    let (&[HEADER_MARK, byte_order, ..], mut rest) = chunk.split_first_chunk::<HEADER_BYTES>()? else { return None };
    loop {
        let (kind, record) = rest.split_first()?;
        match *kind {
            END_OF_CHUNK => return (!is_last).then_some(()),
            1..=HEADER_MARK => return (is_last && rest == END).then_some(()),
            _ => {}
        }
        let (length, record) = match record.split_first()? {
            (&LONG, record) => {
                let (length, record) = record.split_first_chunk()?;
                let is_big = byte_order == BIG_ENDIAN;
                (if is_big { u64::from_be_bytes(*length) } else { u64::from_le_bytes(*length) }, record)
            }
            (short, record) => (u64::from(*short), record),
        };
        rest = record.get(usize::try_from(length).ok()?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::check_anchor_bytes;

    /// An anchor with one property, which claims to have `properties`.
    fn anchor(properties: u32) -> Vec<u8> {
        let fixed = [0; super::FIXED_BYTES];
        let texts = b"machine\0creator\0\0";
        [&b"\x03BOTF2\0\x03"[..], &fixed, texts, &properties.to_le_bytes(), b"NAME\0value\0", &[0; 16], &[2, 1]]
            .concat()
    }

    #[test]
    fn an_anchor_has_the_strings_that_it_counts() {
        let whole = anchor(1);
        assert_eq!(check_anchor_bytes(&whole), Some(()));
        // libotf2 would fail to allocate memory for these, and write to NULL anyway.
        assert_eq!(check_anchor_bytes(&anchor(1 << 31)), None);
        assert_eq!(check_anchor_bytes(&anchor(u32::MAX)), None);
        assert_eq!(check_anchor_bytes(b"[OTF2]\n"), None);
        let properties = whole.len() - 18;
        for end in 0..properties {
            assert_eq!(check_anchor_bytes(&whole[..end]), None, "{end} bytes");
        }
    }
}
