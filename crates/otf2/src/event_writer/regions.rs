//! Regions, their parameters, and metrics.

use std::ptr;

use otf2_sys as sys;

use super::EventWriter;
use crate::error::{Result, refused};
use crate::{
    Attributes, MeasurementMode, MetricRef, MetricValue, ParameterRef, RegionRef, StringRef,
};

impl EventWriter<'_> {
    /// A region is entered.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn enter(&mut self, time: u64, region: RegionRef, attributes: &Attributes) -> Result<()> {
        self.defined("Enter", "region", region.is_defined())?;
        self.event("Enter", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_Enter(writer, list, time, region.get()) }
        })
    }

    /// A region is left.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn leave(&mut self, time: u64, region: RegionRef, attributes: &Attributes) -> Result<()> {
        self.defined("Leave", "region", region.is_defined())?;
        self.event("Leave", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_Leave(writer, list, time, region.get()) }
        })
    }

    /// The values of a metric class, in the order of its members and of their types.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`]; also when there are more than 255 values.
    pub fn metric(
        &mut self,
        time: u64,
        metric: MetricRef,
        values: &[MetricValue],
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("Metric", "metric", metric.is_defined())?;
        let Ok(count) = u8::try_from(values.len()) else {
            let operation = format!("write Metric at {time} on {:?}", self.location);
            return Err(refused(operation, "a metric event has at most 255 values"));
        };
        // One value is the common case and needs no memory.
        let one;
        let many: (Vec<_>, Vec<_>);
        let (types, raw_values): (*const _, *const _) = match values {
            [] => (ptr::null(), ptr::null()),
            [value] => {
                one = (value.raw_type(), value.to_raw());
                (&raw const one.0, &raw const one.1)
            }
            _ => {
                many = values
                    .iter()
                    .map(|value| (value.raw_type(), value.to_raw()))
                    .unzip();
                (many.0.as_ptr(), many.1.as_ptr())
            }
        };
        self.event("Metric", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list; both arrays have `count` elements.
            unsafe {
                sys::OTF2_EvtWriter_Metric(
                    writer,
                    list,
                    time,
                    metric.get(),
                    count,
                    types,
                    raw_values,
                )
            }
        })
    }

    /// Recording stops, or goes on.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn measurement_on_off(
        &mut self,
        time: u64,
        mode: MeasurementMode,
        attributes: &Attributes,
    ) -> Result<()> {
        self.event("MeasurementOnOff", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_MeasurementOnOff(writer, list, time, mode.raw()) }
        })
    }

    /// A string parameter of the region entered last.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn parameter_string(
        &mut self,
        time: u64,
        parameter: ParameterRef,
        value: StringRef,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ParameterString", "parameter", parameter.is_defined())?;
        self.defined("ParameterString", "string", value.is_defined())?;
        self.event("ParameterString", time, attributes, |writer, list| {
            let (parameter, value) = (parameter.get(), value.get());
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_ParameterString(writer, list, time, parameter, value) }
        })
    }

    /// A signed parameter of the region entered last.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn parameter_i64(
        &mut self,
        time: u64,
        parameter: ParameterRef,
        value: i64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ParameterInt", "parameter", parameter.is_defined())?;
        self.event("ParameterInt", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_ParameterInt(writer, list, time, parameter.get(), value) }
        })
    }

    /// An unsigned parameter of the region entered last.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn parameter_u64(
        &mut self,
        time: u64,
        parameter: ParameterRef,
        value: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ParameterUnsignedInt", "parameter", parameter.is_defined())?;
        self.event("ParameterUnsignedInt", time, attributes, |writer, list| {
            let parameter = parameter.get();
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_ParameterUnsignedInt(writer, list, time, parameter, value)
            }
        })
    }
}
