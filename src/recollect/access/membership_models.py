"""The nouns of working together: workspaces, projects, companies, their members, and profiles."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema

from recollect.access.models import CompanyRole, Email, Model, Name, WorkspaceRole
from recollect.kit.text import Text


def _iso_day(given: object) -> object:
    # Pydantic also reads seconds since 1970 and moments at midnight as days.
    if isinstance(given, date) or (isinstance(given, str) and _ISO_DAY.fullmatch(given)):
        return given
    raise ValueError("a day such as 2026-01-31")


_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

CompanyStatus = Literal["active", "inactive"]
Rut = Annotated[
    Text,
    StringConstraints(max_length=20),
    Field(description="A number of the scheme that the server is set to: a RUT, unless it says otherwise."),
]
Phone = Annotated[Text, StringConstraints(max_length=50)]
Code = Annotated[Text, StringConstraints(max_length=50)]
Day = Annotated[date, BeforeValidator(_iso_day)]
Description = Annotated[Text, StringConstraints(max_length=500)]


class Workspace(Model):
    """A workspace, and the caller's role in it."""

    id: UUID
    name: str
    is_personal: bool
    role: WorkspaceRole
    created_at: datetime
    updated_at: datetime


class NamedWorkspace(Model):
    """What a workspace is to be called."""

    name: Name


class Project(Model):
    id: UUID
    workspace_id: UUID
    name: str
    created_at: datetime
    updated_at: datetime


class NamedProject(Model):
    """What a project is to be called; its workspace has no other of that name."""

    name: Name


class Member(Model):
    """Somebody in a workspace or company."""

    user_id: UUID
    email: str | None
    full_name: str | None
    created_at: datetime


class WorkspaceMember(Member):
    role: WorkspaceRole


class CompanyMember(Member):
    role: CompanyRole
    status: CompanyStatus


class NewMember(Model):
    """Whom to add: somebody with an account, by e-mail address or by id."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["email"]}, {"required": ["user_id"]}]}
    )

    email: Email | SkipJsonSchema[None] = None
    user_id: UUID | SkipJsonSchema[None] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.email is None) == (self.user_id is None):
            raise ValueError("give either email or user_id")
        return self


class NewWorkspaceMember(NewMember):
    role: WorkspaceRole = "member"


class NewCompanyMember(NewMember):
    role: CompanyRole = "member"
    status: CompanyStatus = "active"


class WorkspaceMemberChange(Model):
    role: WorkspaceRole


class CompanyMemberChange(Model):
    """What is left out or null stays as it is."""

    role: CompanyRole | None = None
    status: CompanyStatus | None = None


class CompanyDetails(Model):
    rut: Rut | None = None
    tax_regime: Description | None = None
    activity_name: Description | None = None
    activity_code: Code | None = None
    legal_representative: Description | None = None
    start_date: Day | None = None
    accounting_start_month: Code | None = None


class NewCompany(CompanyDetails):
    name: Name


class CompanyChange(CompanyDetails):
    """What is left out stays as it is; null empties a field, except for the name, which stays."""

    name: Name | None = None


class Company(Model):
    """A company, and the caller's role in it."""

    id: UUID
    name: str | None
    rut: str | None
    tax_regime: str | None
    activity_name: str | None
    activity_code: str | None
    legal_representative: str | None
    start_date: date | None
    accounting_start_month: str | None
    role: CompanyRole
    created_at: datetime
    updated_at: datetime


class Profile(Model):
    """The caller as a person. What role and premium mean is for the applications to say."""

    id: UUID
    email: str | None
    full_name: str | None
    phone: str | None
    rut: str | None
    role: Annotated[str | None, Field(description="Set by the service alone.")]
    is_premium: Annotated[bool, Field(description="Set by the service alone.")]
    created_at: datetime
    updated_at: datetime


class ProfileChange(Model):
    """What is left out stays as it is; null empties a field."""

    full_name: Name | None = None
    phone: Phone | None = None
    rut: Rut | None = None
