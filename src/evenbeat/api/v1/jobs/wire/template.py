"""Templates as clients write and see them."""

from datetime import datetime
from typing import Annotated, Any, Self

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenbeat.api.v1.jobs.wire.job_in import JobIn
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.templates import Template
from evenbeat.core.limits import LONGEST_DESCRIPTION


class TemplateIn(BaseModel):
    """A job with blanks. The value of a parameter is its default; null means it must be given."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "description": "says hello every so often",
                    "job": {"kind": "echo", "payload": "hello ${who}", "schedule": "every ${pace}"},
                    "parameters": {"who": "you", "pace": "1h"},
                }
            ]
        },
    )

    job: dict[str, Any]
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    description: Annotated[str, Field(max_length=LONGEST_DESCRIPTION)] | None = None

    def to_core(self, name: str) -> Template:
        unknown = [
            FieldError(f"job.{field}", "is no field of a job")
            for field in self.job
            if field not in JobIn.model_fields
        ]
        if unknown:
            raise InvalidInput(unknown[0].field, unknown[0].message, more=unknown[1:])
        return Template(name, self.job, self.parameters, self.description)


class TemplateOut(BaseModel):
    """A template."""

    name: str
    description: str | None
    job: dict[str, Any]
    parameters: dict[str, Any]
    version: int
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def from_core(cls, template: Template) -> Self:
        return cls(
            name=template.name,
            description=template.description,
            job=template.job,
            parameters=template.parameters,
            version=template.version,
            created_at=template.created_at,
            updated_at=template.updated_at,
        )


class TemplatesOut(BaseModel):
    """All templates."""

    templates: list[TemplateOut]

    @classmethod
    def from_core(cls, templates: list[Template]) -> Self:
        return cls(templates=[TemplateOut.from_core(each) for each in templates])


class FillIn(BaseModel):
    """The values of the blanks, and other fields for this one job."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"parameters": {"who": "world"}, "job": {"priority": 5}}]},
    )

    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    job: dict[str, Any] = Field(default_factory=dict[str, Any])

    def fill_in(self, template: Template) -> JobIn:
        try:
            return JobIn.model_validate(template.fill_in(self.parameters, self.job))
        except ValidationError as error:
            faults = [{**fault, "loc": ("body", "job", *fault["loc"])} for fault in error.errors()]
            raise RequestValidationError(faults) from None
