//! Metrics and parameters.

use otf2_sys as sys;

use super::GlobalDefinitions;
use crate::error::{Result, refused};
use crate::records::{MetricClass, MetricMember, Parameter};
use crate::{AttributeType, MetricMemberRef, MetricRef, ParameterRef};

impl GlobalDefinitions<'_> {
    /// Defines one value of metric classes.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`]; also when its value type is not `U64`, `I64` or `F64`.
    pub fn metric_member(
        &mut self,
        reference: MetricMemberRef,
        member: &MetricMember,
    ) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, member.name)?;
        self.defined.optional_string(&by, member.description)?;
        self.defined.optional_string(&by, member.unit)?;
        if !matches!(
            member.value_type,
            AttributeType::U64 | AttributeType::I64 | AttributeType::F64
        ) {
            return Err(refused(
                by,
                format!("{:?} is no type for metric values", member.value_type),
            ));
        }
        self.defined.next_metric_member(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteMetricMember(
                self.writer.as_ptr(),
                reference.get(),
                member.name.get(),
                member.description.get(),
                member.metric_type.raw(),
                member.mode.raw(),
                member.value_type.raw(),
                member.base.raw(),
                member.exponent,
                member.unit.get(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a metric class.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`]; also when it has no members, or more than 255.
    pub fn metric_class(&mut self, reference: MetricRef, class: &MetricClass) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        let Some(count) = u8::try_from(class.members.len())
            .ok()
            .filter(|count| *count > 0)
        else {
            return Err(refused(by, "a metric class has 1 to 255 members"));
        };
        for member in &class.members {
            self.defined.metric_member(&by, *member)?;
        }
        let members: Vec<u32> = class.members.iter().map(|member| member.get()).collect();
        self.defined.next_metric(reference)?;
        // SAFETY: the writer is open and takes numbers; the array has `count` elements.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteMetricClass(
                self.writer.as_ptr(),
                reference.get(),
                count,
                members.as_ptr(),
                class.occurrence.raw(),
                class.recorder_kind.raw(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a parameter.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn parameter(&mut self, reference: ParameterRef, parameter: &Parameter) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, parameter.name)?;
        self.defined.next_parameter(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteParameter(
                self.writer.as_ptr(),
                reference.get(),
                parameter.name.get(),
                parameter.parameter_type.raw(),
            )
        };
        self.written(code, &by)
    }
}
