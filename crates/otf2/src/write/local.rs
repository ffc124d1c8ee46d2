//! The local definitions of one location: mapping tables and clock offsets.

use std::path::PathBuf;
use std::ptr::NonNull;

use otf2_sys as sys;

use super::handle::Handle;
use crate::error::{self, Result, check, check_all, refused};
use crate::refs::LocationRef;
use crate::vocabulary::MappingType;

/// Writes the local definition file of a location.
///
/// Readers apply mapping tables to the references in the location's events, and clock offsets to its times. They
/// interpolate linearly between two offsets, and extrapolate with the slope of the two nearest ones. A single offset
/// has no effect: write two or more.
pub struct LocalDefWriter<'a> {
    handle: &'a mut Handle,
    archive: *mut sys::OTF2_Archive,
    writer: Option<NonNull<sys::OTF2_DefWriter>>,
    location: LocationRef,
    last_offset_time: Option<u64>,
    mapped: Vec<MappingType>,
}

// SAFETY: `archive` and `writer` are reachable only through this value, which borrows the handle exclusively, and
// libotf2 allows a writer to move between threads that use it one after the other.
unsafe impl Send for LocalDefWriter<'_> {}

/// Frees an identifier map when dropped.
struct IdMap(NonNull<sys::OTF2_IdMap>);

impl Drop for IdMap {
    fn drop(&mut self) {
        // SAFETY: made by libotf2 and freed only here; mapping tables are copies.
        unsafe { sys::OTF2_IdMap_Free(self.0.as_ptr()) };
    }
}

impl<'a> LocalDefWriter<'a> {
    pub(super) fn new(handle: &'a mut Handle, location: LocationRef) -> Result<Self> {
        let operation = || format!("open the local definitions of {location:?}");
        if !location.is_defined() {
            return Err(refused(operation(), "the location reference is UNDEFINED"));
        }
        let archive = handle.archive()?;
        error::forget();
        // SAFETY: the archive is open, in write mode, and has flush callbacks.
        let writer = unsafe { sys::OTF2_Archive_GetDefWriter(archive, location.get()) };
        let writer = NonNull::new(writer).ok_or_else(|| error::null(operation()))?;
        let mapped = Vec::new();
        Ok(Self { handle, archive, writer: Some(writer), location, last_offset_time: None, mapped })
    }

    /// Local reference `i` stands for global reference `globals[i]`. An identity mapping is not written.
    /// Only one table per type is allowed, at most as large as a definitions chunk.
    pub fn mapping_table_dense(&mut self, mapping: MappingType, globals: &[u32]) -> Result<()> {
        self.first_of_its_type(mapping)?;
        if globals.iter().zip(0..).all(|(global, local)| *global == local) {
            return Ok(());
        }
        let length = u64::try_from(globals.len()).unwrap_or(u64::MAX);
        error::forget();
        // SAFETY: the array has `length` elements; libotf2 copies them.
        let map = unsafe { sys::OTF2_IdMap_CreateFromUint32Array(length, globals.as_ptr(), true) };
        let map = NonNull::new(map).ok_or_else(|| error::null(self.operation(mapping)))?;
        self.write(mapping, &IdMap(map))
    }

    /// The first reference of a pair is local, the second global. Local references without a pair stand for themselves.
    pub fn mapping_table_sparse(&mut self, mapping: MappingType, pairs: &[(u64, u64)]) -> Result<()> {
        self.first_of_its_type(mapping)?;
        let mut sorted: Vec<(u64, u64)> = pairs.to_vec();
        // libotf2 inserts by shifting, so only ascending order is fast.
        small_sort::sort(&mut sorted);
        if let Some(twice) = sorted.windows(2).find(|two| matches!(two, [(a, _), (b, _)] if a == b)) {
            return Err(refused(self.operation(mapping), format!("two entries for one: {twice:?}")));
        }
        if sorted.iter().all(|(local, global)| local == global) {
            return Ok(());
        }
        let length = u64::try_from(sorted.len()).unwrap_or(u64::MAX);
        error::forget();
        // SAFETY: takes numbers and checks them.
        let map = unsafe { sys::OTF2_IdMap_Create(SPARSE, length) };
        let map = IdMap(NonNull::new(map).ok_or_else(|| error::null(self.operation(mapping)))?);
        for (local, global) in sorted {
            // SAFETY: the map is alive and nothing else uses it.
            let code = unsafe { sys::OTF2_IdMap_AddIdPair(map.0.as_ptr(), local, global) };
            check(code, || self.operation(mapping))?;
        }
        self.write(mapping, &map)
    }

    fn first_of_its_type(&mut self, mapping: MappingType) -> Result<()> {
        if matches!(mapping, MappingType::Unknown(_)) {
            return Err(refused(self.operation(mapping), "not a mapping type of OTF2 3.0"));
        }
        if self.mapped.contains(&mapping) {
            return Err(refused(self.operation(mapping), "there is a table of this type already"));
        }
        self.mapped.push(mapping);
        Ok(())
    }

    fn write(&mut self, mapping: MappingType, map: &IdMap) -> Result<()> {
        let Some(writer) = self.writer else {
            return Err(refused(self.operation(mapping), "the file could not be written before"));
        };
        // SAFETY: writer and map are alive, and nothing else uses them.
        let code = unsafe { sys::OTF2_DefWriter_WriteMappingTable(writer.as_ptr(), mapping.raw(), map.0.as_ptr()) };
        let result = check(code, || self.operation(mapping));
        self.remember(result)
    }

    /// At this local time (before correction) the location's clock is `offset` ticks behind the archive's: readers
    /// add the offset. Times must increase.
    pub fn clock_offset(&mut self, time: u64, offset: i64, standard_deviation: f64) -> Result<()> {
        let operation = format!("write a clock offset at {time} for {:?}", self.location);
        if let Some(last) = self.last_offset_time.filter(|last| time <= *last) {
            return Err(refused(operation, format!("the offset before is at {last}")));
        }
        if !(standard_deviation >= 0.0 && standard_deviation.is_finite()) {
            return Err(refused(operation, "the standard deviation must be a number from 0 on"));
        }
        let Some(writer) = self.writer else {
            return Err(refused(operation, "the file could not be written before"));
        };
        // SAFETY: the writer is alive and nothing else uses it.
        let code = unsafe { sys::OTF2_DefWriter_WriteClockOffset(writer.as_ptr(), time, offset, standard_deviation) };
        let result = check(code, || operation);
        self.remember(result)?;
        self.last_offset_time = Some(time);
        Ok(())
    }

    /// Gives up after an error: `Handle::give_up` explains why a failed writer must not be used again.
    fn remember(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.writer = None;
            self.handle.give_up();
        }
        result
    }

    /// Closes the file.
    pub fn close(mut self) -> Result<()> {
        if let Err(error) = self.finish() {
            self.handle.note_failure();
            return Err(error);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let operation = || format!("close {}", self.file().display());
        let Some(writer) = self.writer else {
            return Err(refused(operation(), "a definition could not be written before"));
        };
        error::forget();
        // SAFETY: archive and writer are open; the writer is cleared below and not used again.
        let code = unsafe { sys::OTF2_Archive_CloseDefWriter(self.archive, writer.as_ptr()) };
        let result = check_all(code, operation);
        self.writer = None;
        let file = self.file();
        result.and_then(|()| self.handle.write_full_chunk(&file, 0))
    }

    fn file(&self) -> PathBuf {
        self.handle.definition_file(self.location)
    }

    fn operation(&self, mapping: MappingType) -> String {
        format!("write the {mapping:?} mapping table of {:?}", self.location)
    }
}

const SPARSE: u8 = 1;
const _: () = assert!(sys::OTF2_ID_MAP_SPARSE == SPARSE as u32);

impl Drop for LocalDefWriter<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() && self.finish().is_err() {
            // A caller that needs the error calls `close`; the archive is still marked as incomplete.
            self.handle.note_failure();
        }
    }
}
