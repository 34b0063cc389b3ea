-- name: faults
-- What is wrong with these functions, in the order in which they were given; null: nothing.
select evenbeat.fault_of_function(given.function, given.has_arguments) as fault
from unnest(:functions::text[], :have_arguments::boolean[]) with ordinality
    as given (function, has_arguments, place)
order by given.place;
