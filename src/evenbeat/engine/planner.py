"""The planner: places whatever nobody has placed yet, wherever it came from."""

from evenbeat.placement.placement import Placement


class Planner:
    """The net below those who place what they add: for callers' transactions, for the dead, and for
    jobs that ended or began by themselves."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    async def turn(self) -> int:
        """How many were looked at. Asks once, and nothing more where nothing waits."""
        return await self._placement.place_waiting()
