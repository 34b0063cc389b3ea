-- name: faults
-- What is wrong with these functions, in the order of the parameters; null if nothing is.
select evenbeat.fault_of_function(given.function, given.has_arguments) as fault
from unnest(:functions::text[], :have_arguments::boolean[]) with ordinality
    as given (function, has_arguments, place)
order by given.place;
